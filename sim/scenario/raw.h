#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/document.h"
#include "scenario/places.h"
#include "scenario/scenario.h"

// The scenario file as it is written: every value checked by itself, with its place; nothing looked up yet.
namespace moeplan::scenario {

struct RawRouting {
  enum class Kind { none, trace, balanced, lognormal };
  Kind kind = Kind::none;
  std::string trace;  // as written
  routing::TraceMap map;
  routing::Resample resample = routing::Resample::lines;
  double sigma = 0;
  std::int64_t draws = 1;
  std::uint64_t seed = 1;
};

struct Raw {
  explicit Raw(base::Where root) : places(std::move(root)) {}
  std::string model, hardware;
  std::string kernel_library;                // of the profile; empty: the framework's
  std::optional<config::Node> inline_model;  // `model` as a mapping: a model file's content; the name is empty then
  struct Degraded {
    topology::DegradedLink link;
    base::Where where;
  };
  std::vector<Degraded> degraded;
  topology::Layout layout;
  StageRules stage_rules;    // layers and MTP blocks are the model's
  std::string stage_layout;  // pipeline_model_parallel_layout, empty when not stated
  bool schedule_stated = false;
  Training training;
  Optimizer optimizer;
  Memory memory;
  std::optional<RecomputeGranularity> granularity;  // nothing: not stated
  std::map<RecomputeModule, base::Where> modules;
  Dispatch dispatch;
  std::optional<std::int64_t> block_layers;  // of full recompute by method block
  std::int64_t uniform_layers = 1;           // and of a group by method uniform
  Policies policies;
  RawRouting routing;
  Places places;
};

// Adds a fault for everything that is wrong in the file itself; what is returned is usable only when none was added.
Raw read_raw(const config::Node& root, base::Faults& faults);

// Names of modules as files write them, in the order of RecomputeModule.
std::string module_name(RecomputeModule module);

}  // namespace moeplan::scenario
