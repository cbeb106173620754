#include "search/explain.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "config/document.h"
#include "plan/plan.h"
#include "search/levers.h"

namespace moeplan::search {
namespace {

struct Job {
  Change change;
  Lever lever;
};

class Explainer {
 public:
  Explainer(const std::string& path, const scenario::Options& options, int threads,
            const std::function<void(std::size_t, std::size_t)>& progress)
      : path_(path),
        options_(options),
        threads_(threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))),
        progress_(progress),
        file_(config::load_yaml(path)),
        cache_(scenario::make_trace_cache()),
        scenario_(std::make_shared<const scenario::Scenario>(scenario::load_scenario(path, options, cache_))) {}

  Explanation run(const ExplainSettings& settings) {
    Explanation result;
    result.base = evaluate(scenario_, threads_);
    if (settings.oom_line)
      result.oom = decode_oom(plan::make_plan(scenario_, 0, threads_), result.base, *settings.oom_line);
    std::vector<Change> singles = single_changes(*scenario_);
    std::set<std::string> known;
    for (const Change& change : singles) known.insert(set_text(change, *scenario_, file_));
    std::vector<Job> jobs = evaluate_all(std::move(singles), result.base);
    const std::vector<Change> best = best_changes(jobs, settings.pairs_of, result.base.fit.device_bytes);
    std::vector<Change> pairs;
    for (std::size_t i = 0; i < best.size(); ++i)
      for (std::size_t j = i + 1; j < best.size(); ++j)
        if (const auto pair = combined(best[i], best[j]);
            pair && known.insert(set_text(*pair, *scenario_, file_)).second)
          pairs.push_back(*pair);
    take(jobs, result, result.singles);
    std::vector<Job> both = evaluate_all(std::move(pairs), result.base);
    for (Job& job : both) job.lever.changes = 2;
    take(both, result, result.pairs);
    return result;
  }

 private:
  void evaluate_one(Job& job, const Evaluation& base) const {
    Lever& lever = job.lever;
    lever.name = job.change.name;
    lever.set = set_text(job.change, *scenario_, file_);
    scenario::Options options = options_;
    for (auto& setting : overrides_of(job.change, *scenario_)) options.overrides.push_back(std::move(setting));
    try {
      const auto changed = std::make_shared<const scenario::Scenario>(scenario::load_scenario(path_, options, cache_));
      const Evaluation e = evaluate(changed, 1);
      lever.verdict = e.fit.verdict;
      lever.allocated_bytes = e.worst.peak.allocated_bytes;
      lever.reserved_bytes = e.worst.reserved_bytes;
      lever.device_bytes = e.fit.device_bytes;
      lever.host_bytes = e.worst.host_bytes;
      lever.rank = e.worst.rank;
      lever.headroom_fraction = e.fit.headroom_fraction;
      lever.saving_bytes = base.fit.device_bytes - e.fit.device_bytes;
      lever.step_s = e.step_s;
      lever.step_change = e.step_s / base.step_s - 1;
      lever.ops = e.ops;
      for (const std::string& warning : e.warnings)
        if (std::find(base.warnings.begin(), base.warnings.end(), warning) == base.warnings.end())
          lever.warnings.push_back(warning);
    } catch (const base::Error& error) {
      // The first reason, without the place: that is the change itself.
      const base::Fault& fault = error.faults().front();
      lever.refused = fault.where.key.empty() ? fault.message : fault.where.key + ": " + fault.message;
    }
  }

  std::vector<Job> evaluate_all(std::vector<Change> changes, const Evaluation& base) const {
    std::vector<Job> jobs;
    for (Change& change : changes) jobs.push_back({std::move(change), {}});
    std::atomic<std::size_t> next{0};
    std::size_t done = 0;
    std::mutex mutex;
    std::exception_ptr failure;
    {
      std::vector<std::jthread> pool;
      for (int w = 0; w < std::min(threads_, static_cast<int>(jobs.size())); ++w)
        pool.emplace_back([&] {
          for (std::size_t i = next++; i < jobs.size(); i = next++) {
            try {
              evaluate_one(jobs[i], base);
              const std::lock_guard lock(mutex);
              if (progress_) progress_(++done, jobs.size());
            } catch (...) {
              const std::lock_guard lock(mutex);
              if (!failure) failure = std::current_exception();
              next = jobs.size();
            }
          }
        });
    }
    if (failure) std::rethrow_exception(failure);
    return jobs;
  }

  // The best of those that save memory; of alternatives only the best one.
  static std::vector<Change> best_changes(std::vector<Job> jobs, std::size_t most, std::int64_t base_bytes) {
    std::erase_if(jobs, [&](const Job& job) { return !job.lever.refused.empty() || !saves(job.lever, base_bytes); });
    std::sort(jobs.begin(), jobs.end(),
              [&](const Job& a, const Job& b) { return ranks_before(a.lever, b.lever, base_bytes); });
    std::vector<Change> best;
    std::set<std::string> families;
    for (const Job& job : jobs) {
      if (best.size() >= most) break;
      if (!job.change.family.empty() && !families.insert(job.change.family).second) continue;
      best.push_back(job.change);
    }
    return best;
  }

  static void take(std::vector<Job>& jobs, Explanation& result, std::vector<Lever>& levers) {
    for (Job& job : jobs) (job.lever.refused.empty() ? levers : result.refused).push_back(std::move(job.lever));
    std::sort(levers.begin(), levers.end(),
              [&](const Lever& a, const Lever& b) { return ranks_before(a, b, result.base.fit.device_bytes); });
  }

  const std::string& path_;
  const scenario::Options& options_;
  int threads_;
  const std::function<void(std::size_t, std::size_t)>& progress_;
  config::Node file_;
  std::shared_ptr<scenario::TraceCache> cache_;
  std::shared_ptr<const scenario::Scenario> scenario_;
};

}  // namespace

bool saves(const Lever& lever, std::int64_t base_device_bytes) {
  return static_cast<double>(lever.saving_bytes) >= 1e-3 * static_cast<double>(base_device_bytes);
}

bool ranks_before(const Lever& a, const Lever& b, std::int64_t base_device_bytes) {
  const auto group = [&](const Lever& lever) {
    if (!saves(lever, base_device_bytes)) return 2;
    return lever.verdict == Verdict::oom ? 1 : 0;
  };
  if (group(a) != group(b)) return group(a) < group(b);
  if (group(a) == 0 && a.step_s != b.step_s) return a.step_s < b.step_s;
  if (a.saving_bytes != b.saving_bytes) return a.saving_bytes > b.saving_bytes;
  return a.name < b.name;
}

const Lever* Explanation::advice() const {
  if (base.fit.verdict == Verdict::fits) return nullptr;
  const Lever* best = nullptr;
  for (const std::vector<Lever>* levers : {&singles, &pairs})
    for (const Lever& lever : *levers) {
      if (lever.verdict == Verdict::oom || (base.fit.verdict == Verdict::tight && lever.verdict != Verdict::fits))
        continue;
      const bool roomier = best == nullptr || (lever.verdict == Verdict::fits && best->verdict == Verdict::tight);
      const bool same = best != nullptr && lever.verdict == best->verdict;
      if (roomier || (same && lever.step_s < best->step_s)) best = &lever;
    }
  return best;
}

std::int64_t Explanation::ops() const {
  std::int64_t sum = base.ops;
  for (const std::vector<Lever>* levers : {&singles, &pairs})
    for (const Lever& lever : *levers) sum += lever.ops;
  return sum;
}

Explanation explain(const std::string& scenario_path, const scenario::Options& options, const ExplainSettings& settings,
                    int threads, const std::function<void(std::size_t, std::size_t)>& progress) {
  return Explainer(scenario_path, options, threads, progress).run(settings);
}

}  // namespace moeplan::search
