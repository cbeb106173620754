#include "scenario/import_megatron_arithmetic.h"

#include <cctype>
#include <cstddef>

namespace moeplan::scenario {
namespace {

constexpr int kMostNesting = 32;
constexpr std::int64_t kMost = std::int64_t{1} << 53;  // products are checked against it before they can overflow

class Expression {
 public:
  explicit Expression(std::string_view text) : text_(text) {}

  std::optional<std::int64_t> all() {
    const std::optional<std::int64_t> value = sum(0);
    blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  char next() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::optional<std::int64_t> sum(int depth) {
    std::optional<std::int64_t> left = product(depth);
    while (left && (next() == '+' || next() == '-')) {
      const char sign = text_[at_++];
      const std::optional<std::int64_t> right = product(depth);
      left = right ? bounded(sign == '+' ? *left + *right : *left - *right) : std::nullopt;
    }
    return left;
  }

  std::optional<std::int64_t> product(int depth) {
    std::optional<std::int64_t> left = unit(depth);
    while (left && (next() == '*' || next() == '/' || next() == '%')) {
      const char sign = text_[at_++];
      const std::optional<std::int64_t> right = unit(depth);
      if (!right || (sign != '*' && *right == 0)) return std::nullopt;
      std::int64_t value = 0;
      if (sign == '*') {
        if (__builtin_mul_overflow(*left, *right, &value)) return std::nullopt;
      } else {
        value = sign == '/' ? *left / *right : *left % *right;
      }
      left = bounded(value);
    }
    return left;
  }

  std::optional<std::int64_t> unit(int depth) {
    if (depth > kMostNesting) return std::nullopt;
    if (next() == '(') {
      ++at_;
      const std::optional<std::int64_t> value = sum(depth + 1);
      if (next() != ')') return std::nullopt;
      ++at_;
      return value;
    }
    std::int64_t value = 0;
    const std::size_t first = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      value = value * 10 + (text_[at_++] - '0');
      if (value > kMost) return std::nullopt;
    }
    return at_ == first ? std::nullopt : std::optional<std::int64_t>(value);
  }

  static std::optional<std::int64_t> bounded(std::int64_t value) {
    return value <= kMost && value >= -kMost ? std::optional<std::int64_t>(value) : std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate_arithmetic(std::string_view text) { return Expression(text).all(); }

}  // namespace moeplan::scenario
