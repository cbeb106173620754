#include "calibrate/fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "calibrate/families.h"
#include "calibrate/least_squares.h"
#include "measurements/predict.h"
#include "topology/hardware_keys.h"
#include "topology/hardware_shapes.h"

namespace moeplan::calibrate {
namespace {

using measurements::Measurement;
using topology::HardwareProfile;

// Errors below this count by their squares, larger ones by their size: what kernels scatter around the best formula.
constexpr double kScale = 0.05;
constexpr std::size_t kRowsPerValue = 2;
constexpr double kLarge = 1e10;              // FLOP
constexpr std::int64_t kFewestOfSpread = 5;  // errors that make a spread

std::vector<double> errors_of(const Rows& rows, const HardwareProfile& profile) {
  std::vector<double> sizes;
  for (const Measurement* row : rows) {
    const std::optional<double> seconds = measurements::predict_seconds(*row, profile).seconds;
    if (seconds) sizes.push_back(std::abs(*seconds / row->seconds - 1));
  }
  return sizes;
}

// A value of its own for every key, so that each row can be predicted while the fit goes on.
void start_values(const FamilyRows& family, const FitOptions& options, HardwareProfile& profile,
                  std::vector<Unknown>& unknowns) {
  for (const std::string& key : family.keys) {
    const bool stated = topology::value_at(profile, key) != nullptr;
    const Bounds bounds = bounds_of(key, profile, family.rows);
    unknowns.push_back({bounds.start, bounds.low, bounds.high, stated});
    topology::set_value(profile, key, {bounds.start, topology::Evidence::measured, options.source});
  }
}

void set_values(const std::vector<std::string>& keys, std::span<const double> values, const std::string& source,
                HardwareProfile& profile) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    topology::set_value(profile, keys[i], {values[i], topology::Evidence::measured, source});
}

Rows predictable(const Rows& rows, const HardwareProfile& profile) {
  Rows result;
  for (const Measurement* row : rows) {
    const std::optional<double> seconds = measurements::predict_seconds(*row, profile).seconds;
    if (seconds && *seconds > 0) result.push_back(row);
  }
  return result;
}

// What the measurements hardly tell of stays near where it was: one row in a hundred says so, with this spread (of a
// logarithm). A value that they do tell of moves by less than a hundredth for it.
constexpr double kPriorShare = 0.01, kPriorSpread = 0.3;

Solution solve(const FamilyRows& family, const std::vector<Unknown>& unknowns, const Rows& rows,
               HardwareProfile profile) {
  const std::size_t keys = family.keys.size();
  const double prior = kScale / kPriorSpread * std::sqrt(kPriorShare * static_cast<double>(rows.size()));
  return minimize(
      unknowns, rows.size() + keys, kScale, [&](std::span<const double> values, std::span<double> residuals) {
        for (std::size_t i = 0; i < keys; ++i) {
          // Sources are texts: only the number changes.
          topology::Value value = *topology::value_at(profile, family.keys[i]);
          value.value = values[i];
          topology::set_value(profile, family.keys[i], std::move(value));
          residuals[rows.size() + i] = unknowns[i].stated ? prior * std::log(values[i] / unknowns[i].start) : 0;
        }
        for (std::size_t i = 0; i < rows.size(); ++i)
          residuals[i] = std::log(*measurements::predict_seconds(*rows[i], profile).seconds / rows[i]->seconds);
      });
}

std::string shown(const Residual& residual) {
  return fmt::format("median error {:.1f} %, 90th percentile {:.1f} %", 100 * residual.median, 100 * residual.p90);
}

FamilyFit fit_family(const FamilyRows& family, const FitOptions& options, HardwareProfile& profile) {
  FamilyFit result;
  result.name = family.name;
  HardwareProfile started = profile;
  std::vector<Unknown> unknowns;
  const Rows before_rows = predictable(family.rows, profile);
  start_values(family, options, started, unknowns);
  const Rows rows = predictable(family.rows, started);
  result.set_aside = static_cast<std::int64_t>(family.rows.size() - rows.size());
  Rows fitted, kept, kept_large;
  for (const Measurement* row : rows) {
    if (!is_kept_out(*row)) {
      fitted.push_back(row);
      continue;
    }
    kept.push_back(row);
    if (measurements::flop_of(*row) >= kLarge) kept_large.push_back(row);
  }
  result.has_flop =
      std::any_of(rows.begin(), rows.end(), [](const Measurement* row) { return measurements::flop_of(*row) > 0; });
  if (fitted.size() < kRowsPerValue * family.keys.size()) fitted.clear();
  if (fitted.empty()) return result;
  const Solution solution = solve(family, unknowns, fitted, started);
  Rows kept_before;
  for (const Measurement* row : kept) {
    if (std::find(before_rows.begin(), before_rows.end(), row) != before_rows.end()) kept_before.push_back(row);
  }
  result.before = residual_of(errors_of(kept_before, profile));
  set_values(family.keys, solution.values, "", started);
  result.fitted = residual_of(errors_of(fitted, started));
  result.kept_out = residual_of(errors_of(kept, started));
  result.kept_large = residual_of(errors_of(kept_large, started));
  result.section = family.keys.front().substr(0, family.keys.front().find('.'));
  result.told = errors_of(!kept_large.empty() ? kept_large : kept, started);
  const Residual& told = result.kept_out.n > 0 ? result.kept_out : result.fitted;
  const std::string source = fmt::format("{}: {} rows; on {} {} {}", options.source, result.fitted.n, told.n,
                                         result.kept_out.n > 0 ? "rows kept out" : "rows of the fit", shown(told));
  for (std::size_t i = 0; i < family.keys.size(); ++i) {
    const topology::Value* old = topology::value_at(profile, family.keys[i]);
    result.values.push_back({family.keys[i], old == nullptr ? 0 : old->value, solution.values[i]});
  }
  set_values(family.keys, solution.values, source, profile);
  return result;
}

// What some libraries of kernels have and others have not: it is fitted where the profile states it, else only where
// the rows kept out come out better with it by a tenth.
constexpr const char* kNotOfAll = "grouped_gemm.group_issue";
constexpr double kAsks = 0.9;

FamilyFit fit_what_rows_ask_for(const FamilyRows& family, const FitOptions& options, HardwareProfile& profile) {
  FamilyRows less = family;
  if (topology::value_at(profile, kNotOfAll) != nullptr || std::erase(less.keys, kNotOfAll) == 0)
    return fit_family(family, options, profile);
  HardwareProfile with_less = profile, with_all = profile;
  FamilyFit simple = fit_family(less, options, with_less), full = fit_family(family, options, with_all);
  const auto median_of = [](const FamilyFit& fit) {
    return fit.kept_out.n > 0 ? fit.kept_out.median : fit.fitted.median;
  };
  const bool asks = !full.values.empty() && median_of(full) < kAsks * median_of(simple);
  profile = asks ? std::move(with_all) : std::move(with_less);
  return asks ? full : simple;
}

HardwareProfile::Library* library_of(HardwareProfile& profile, const std::string& name) {
  const auto found = std::find_if(profile.libraries.begin(), profile.libraries.end(),
                                  [&](const HardwareProfile::Library& library) { return library.name == name; });
  return found == profile.libraries.end() ? nullptr : &*found;
}

// Values and names of the rows' libraries join what the library held before.
void store_library(const FitOptions& options, const Rows& rows, const std::vector<FamilyFit>& families,
                   const HardwareProfile& fitted, HardwareProfile& profile) {
  if (library_of(profile, options.library) == nullptr) profile.libraries.push_back({options.library, {}, {}});
  HardwareProfile::Library& library = *library_of(profile, options.library);
  for (const Measurement* row : rows) {
    const std::string& name = row->library;
    const HardwareProfile::Library* owner = topology::find_library(profile, name);
    if (!name.empty() && owner != &library) library.matches.push_back(name);
  }
  if (library.matches.empty()) library.matches.push_back(options.library);
  for (const FamilyFit& family : families) {
    for (const FittedValue& value : family.values) {
      std::erase_if(library.values, [&](const auto& old) { return old.first == value.key; });
      library.values.emplace_back(value.key, *topology::value_at(fitted, value.key));
    }
  }
  // In the order of the key list, as a file that was read holds them.
  std::vector<std::pair<std::string, topology::Value>> ordered;
  topology::visit_keys(fitted, [&](const char* section, const char* key, const auto&, topology::Quantity) {
    for (const auto& entry : library.values) {
      if (entry.first == std::string(section) + "." + key) ordered.push_back(entry);
    }
  });
  library.values = std::move(ordered);
}

// Spreads of the sections whose values were fitted, from what was kept out of all their fits.
void store_spreads(const std::string& source, Fit& fit) {
  std::vector<std::pair<std::string, std::vector<double>>> sections;
  const auto add = [&](const std::string& section, const std::vector<double>& told) {
    auto at = std::find_if(sections.begin(), sections.end(), [&](const auto& entry) { return entry.first == section; });
    if (at == sections.end()) at = sections.insert(sections.end(), {section, {}});
    at->second.insert(at->second.end(), told.begin(), told.end());
  };
  for (const FamilyFit& family : fit.families) add(family.section, family.told);
  for (const CollectiveFit& collective : fit.collectives) add("network", collective.told);
  for (const auto& [section, told] : sections) {
    const Residual residual = residual_of(told);
    const std::string key = section + ".spread";
    if (residual.n < kFewestOfSpread) continue;  // the base profile's stays
    const topology::Value* old = topology::value_at(fit.profile, key);
    // Whole per mille: nobody knows a spread better, and no error at all is no spread that a profile takes.
    const double spread = std::clamp(std::round(residual.median / kMedianOfSizes * 1e3) / 1e3, 1e-3, 2.0);
    fit.spreads.push_back({key, old == nullptr ? 0 : old->value, spread});
    topology::set_value(fit.profile, key,
                        {spread, topology::Evidence::measured,
                         fmt::format("{}: {} rows kept out of the fit: median error {:.1f} %; a normal distribution "
                                     "with that median deviates by it over {}",
                                     source, residual.n, 100 * residual.median, kMedianOfSizes)});
  }
}

// What was read off the device; of a key that stands several times the median.
void store_values(const FitOptions& options, Fit& fit) {
  for (const std::string& key : measurements::read_off_keys()) {
    std::vector<double> values;
    std::string how;
    for (const measurements::ReadOffValue& value : options.values) {
      if (value.key != key) continue;
      values.push_back(value.value);
      how = value.how;
    }
    if (values.empty()) continue;
    std::sort(values.begin(), values.end());
    double value = values[(values.size() - 1) / 2];
    const topology::Value* old = topology::value_at(fit.profile, key);
    fit.read_off.push_back({key, old == nullptr ? 0 : old->value, value});
    topology::set_value(fit.profile, key,
                        {value, topology::Evidence::measured, options.source + (how.empty() ? "" : ": " + how)});
  }
}

// Kernels that hold x of N multiprocessors leave N - x to products beside them: N / (N - x) times as long.
void note_overlaps(const FitOptions& options, Fit& fit) {
  const double all = fit.profile.device.sm_count.value;
  for (const measurements::Overlap& overlap : options.overlaps) {
    const double ratio = overlap.beside_s / overlap.alone_s;
    const auto held = static_cast<double>(overlap.sms);
    if (overlap.copy == "sms" && held > 0 && held < all) {
      fit.notes.push_back(
          fmt::format("products beside a copy kernel on {} multiprocessors take {:.3f} times as long; "
                      "the models say {:.3f}",
                      overlap.sms, ratio, all / (all - held)));
    } else if (overlap.copy != "sms") {
      fit.notes.push_back(fmt::format("products beside a copy engine ({}) take {:.3f} times as long; the models say 1",
                                      overlap.copy, ratio));
    }
  }
}

void store_collectives(Fit& fit) {
  auto& entries = fit.profile.collectives;
  const auto key = [](const topology::CollectiveEntry& entry) {
    return std::tie(entry.kind, entry.ranks, entry.nodes, entry.fabric);
  };
  for (const CollectiveFit& collective : fit.collectives) {
    std::erase_if(entries, [&](const topology::CollectiveEntry& old) { return key(old) == key(collective.entry); });
    entries.push_back(collective.entry);
  }
  std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

// Of a shape that was timed several times the median (of an even number the lower one).
void store_shapes(const Rows& rows, Fit& fit) {
  using Shape = HardwareProfile::MeasuredShape;
  std::vector<Shape> all;
  for (const Measurement* row : rows) {
    const measurements::Shape& s = row->shape;
    constexpr std::array<const char*, 3> kPasses = {"forward", "dgrad", "wgrad"};
    const std::string dtype = cost::precision_name(row->precision);
    if (row->family == measurements::Family::gemm) {
      all.push_back({"gemm", kPasses[static_cast<std::size_t>(row->pass)], dtype, {s.m, s.n, s.k}, row->seconds});
    } else if (row->family == measurements::Family::attention && !row->cache_write) {
      all.push_back({"attention",
                     row->backward ? "backward" : "forward",
                     dtype,
                     {s.batch, s.heads, s.seq, s.qk_dim, s.v_dim},
                     row->seconds});
    }
  }
  std::sort(all.begin(), all.end(), [](const Shape& a, const Shape& b) {
    if (topology::before(a, b) || topology::before(b, a)) return topology::before(a, b);
    return a.seconds < b.seconds;
  });
  std::vector<Shape> shapes;
  for (auto first = all.begin(); first != all.end();) {
    const auto last =
        std::find_if(first, all.end(), [&](const Shape& other) { return topology::before(*first, other); });
    shapes.push_back(first[(last - first - 1) / 2]);
    first = last;
  }
  if (shapes.size() > kMostShapes) {
    fit.notes.push_back(fmt::format("{} timed shapes are more than the {} that a profile takes: none is stored",
                                    shapes.size(), kMostShapes));
    return;
  }
  fit.profile.shapes = std::move(shapes);
}

// A rate that goes on is never above the burst rate: what was fitted here is the newer of the two.
void leave_out_sustained(Fit& fit) {
  auto& gemm = fit.profile.gemm;
  const auto check = [&](const char* key, topology::OptionalValue& sustained, double burst) {
    if (!sustained || sustained->value <= burst) return;
    sustained.reset();
    fit.notes.push_back(fmt::format("gemm.{} is left out: the rate fitted here is lower", key));
  };
  const auto rate = [](const topology::OptionalValue& peak) { return peak ? peak->value : 0.0; };
  check("sustained", gemm.sustained, gemm.peak.value);
  check("sustained_fp8", gemm.sustained_fp8, rate(gemm.peak_fp8));
  check("sustained_mxfp8", gemm.sustained_mxfp8, rate(gemm.peak_mxfp8));
  check("sustained_fp4", gemm.sustained_fp4, rate(gemm.peak_fp4));
}

}  // namespace

Residual residual_of(std::vector<double> sizes) {
  if (sizes.empty()) return {};
  std::sort(sizes.begin(), sizes.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(sizes.size() - 1);
    const auto low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(low + 1, sizes.size() - 1);
    return sizes[low] + (place - static_cast<double>(low)) * (sizes[high] - sizes[low]);
  };
  return {static_cast<std::int64_t>(sizes.size()), at(0.5), at(0.9)};
}

const Residual& FamilyFit::judged() const {
  if (kept_large.n > 0) return kept_large;
  return kept_out.n > 0 ? kept_out : fitted;
}

bool is_kept_out(const Measurement& row) {
  const measurements::Shape& s = row.shape;
  std::string what = fmt::format("{} {} {} {}", measurements::family_name(row.family), static_cast<int>(row.precision),
                                 static_cast<int>(row.pass), row.backward ? 1 : 0);
  for (const std::int64_t size : {s.m, s.n, s.k, s.tokens, s.hidden, s.top_k, s.experts, s.batch, s.heads, s.kv_heads,
                                  s.seq, s.qk_dim, s.v_dim, s.ranks, s.sms, static_cast<std::int64_t>(s.bytes)})
    what += fmt::format(" {}", size);
  if (!row.group_rows.empty()) what += fmt::format(" {} {}", row.group_rows.size(), row.group_rows.front());
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return (hash >> 16) % 10 < 3;
}

Fit fit_profile(const std::vector<const Measurement*>& rows, const HardwareProfile& base, const FitOptions& options) {
  Fit fit;
  fit.profile = base;
  HardwareProfile working = base;
  working.shapes.clear();         // the cost model itself is fitted
  working.gemm.drop_sustained();  // single operations run at the burst rate
  const bool own = !options.library.empty();
  if (const HardwareProfile::Library* library = library_of(fit.profile, options.library); own && library != nullptr)
    working = topology::with_library(std::move(working), *library);
  for (const FamilyRows& family : families_of(rows, own)) {
    if (family.keys.empty()) {
      fit.notes.push_back(
          fmt::format("{}: {} rows, too few of any kind to decide a value", family.name, family.rows.size()));
      continue;
    }
    FamilyFit fitted = fit_what_rows_ask_for(family, options, working);
    if (fitted.values.empty()) {
      fit.notes.push_back(fmt::format("{}: {} rows are too few for its {} values, which stay", family.name,
                                      family.rows.size(), family.keys.size()));
      continue;
    }
    if (fitted.set_aside > 0)
      fit.notes.push_back(
          fmt::format("{}: {} rows that the profile cannot predict are set aside", family.name, fitted.set_aside));
    fit.families.push_back(std::move(fitted));
  }
  const bool others = !own && (!options.values.empty() || !options.collectives.empty());
  if (!own && !options.collectives.empty())
    fit.collectives = fit_collectives(options.collectives, base, options.source, fit.notes);
  if (fit.families.empty() && fit.collectives.empty() && !(others && !options.values.empty())) {
    std::string why;
    for (const std::string& note : fit.notes) why += (why.empty() ? "" : "; ") + note;
    throw base::Error(base::Where{options.source, 0, 0, {}}, "no cost model has enough rows to be fitted",
                      why.empty() ? "docs/operators.md describes the rows" : why);
  }
  if (options.shapes) store_shapes(rows, fit);
  if (own) {
    store_library(options, rows, fit.families, working, fit.profile);
    return fit;
  }
  for (const FamilyFit& family : fit.families) {
    for (const FittedValue& value : family.values)
      topology::set_value(fit.profile, value.key, *topology::value_at(working, value.key));
  }
  note_overlaps(options, fit);
  store_collectives(fit);
  store_values(options, fit);
  store_spreads(options.source, fit);
  leave_out_sustained(fit);
  return fit;
}

}  // namespace moeplan::calibrate
