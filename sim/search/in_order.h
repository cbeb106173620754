#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace moeplan::search {

// Computes rows[i] = make(i) on threads (<= 0: all of the machine) and hands each to take(row) in the order of i, on
// the calling thread, as soon as it and all before it are done. What make or take throws ends the work and is thrown
// on.
template <class Row, class Make, class Take>
void rows_in_order(std::vector<Row>& rows, int threads, const Make& make, const Take& take) {
  const std::size_t count = rows.size();
  std::vector<char> ready(count, 0);
  const auto all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int workers = std::min<int>(threads > 0 ? threads : all, static_cast<int>(count));
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::vector<std::jthread> pool;
  for (int w = 0; w < workers; ++w)
    pool.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) {
        Row row;
        std::exception_ptr thrown;
        try {
          row = make(i);
        } catch (...) {
          thrown = std::current_exception();
        }
        const std::lock_guard lock(mutex);
        if (thrown && !failure) failure = thrown;
        rows[i] = std::move(row);
        ready[i] = 1;
        changed.notify_all();
      }
    });
  for (std::size_t i = 0; i < count; ++i) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready[i] != 0 || failure; });
    if (failure) {
      next = count;
      lock.unlock();
      pool.clear();
      std::rethrow_exception(failure);
    }
    lock.unlock();
    try {
      take(rows[i]);
    } catch (...) {
      next = count;  // nobody wants the rest
      throw;
    }
  }
}

}  // namespace moeplan::search
