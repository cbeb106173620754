#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "config/node_data.h"

namespace moeplan::config {
namespace {

using base::Where;
using Data = Node::Data;
using DataPointer = std::shared_ptr<const Data>;

// Ends the parse after a fault that would only repeat itself; the fault is collected before.
struct Stop {};

// Builds our tree from yaml-cpp's events. Its own tree is not used: it lets duplicate keys pass, expands nothing, may
// hold loops, and YAML::LoadAll never returns for a text that begins with ','.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string name, std::string path, std::size_t depth, bool positions, base::Faults& faults)
      : name_(std::move(name)), path_(std::move(path)), depth_(depth), positions_(positions), faults_(&faults) {
    start_ = Where{name_, positions ? 1 : 0, positions ? 1 : 0, path_};
  }

  Where place(const YAML::Mark& mark, const std::string& path) const {
    if (!positions_ || mark.is_null()) return Where{name_, 0, 0, path};
    return Where{name_, mark.line + 1, mark.column + 1, path};
  }

  // The document, a null node when there is none.
  DataPointer root() const { return root_ ? root_ : null_at(start_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (expects_key()) return refuse_key(mark);
    count(mark);
    // A value without text has no place of its own (yaml-cpp gives that of the next token): it stands at its key.
    Where where = open_.empty() ? start_ : open_.back().data->where;
    if (!open_.empty() && open_.back().data->kind == Node::Kind::map) where = open_.back().key_where;
    where.key = child_path();
    finish(null_at(where), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (expects_key()) return refuse_key(mark);
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {  // yaml-cpp itself refuses unknown names: the value is still open
      stop(place(mark, child_path()), "an alias stands inside the value that it repeats");
    }
    finish(copy(*found->second, child_path(), mark, depth_ + open_.size()), YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool is_key = expects_key();
    auto data = std::make_shared<Data>();
    data->kind = Node::Kind::scalar;
    data->text = value;
    data->quoted = tag == "!";
    data->where = place(mark, is_key ? join(open_.back().data->where.key, value) : child_path());
    check_tag(tag, data->quoted, data->where);
    if (value.find('\0') != std::string::npos) faults_->add(data->where, "a NUL byte, which no text holds");
    if (is_key) {
      if (anchor != YAML::NullAnchor) anchored_[anchor] = data;
      return take_key(*data);
    }
    count(mark);
    finish(data, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    enter(Node::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { leave(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    enter(Node::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { leave(); }

 private:
  // A list or mapping whose end has not come yet.
  struct Open {
    std::shared_ptr<Data> data;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool is_key = false;       // stands where a key was expected: read, then dropped
    bool has_key = false;      // of a mapping: the next node is a value
    bool drops_value = false;  // of a mapping: the key was a fault, its value is read and dropped
    Where key_where;           // of the key whose value is next
    std::string key;
    std::map<std::string, Where> first;  // place of each key
  };

  static DataPointer null_at(const Where& where) {
    auto data = std::make_shared<Data>();
    data->where = where;
    return data;
  }

  static std::string join(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }

  [[noreturn]] void stop(const Where& where, std::string message) {
    faults_->add(where, std::move(message));
    throw Stop{};
  }

  void count(const YAML::Mark& mark) {
    if (++nodes_ > kMaxNodes) {
      stop(place(mark, child_path()), "more than " + std::to_string(kMaxNodes) + " values (aliases expanded)");
    }
  }

  void check_depth(std::size_t above, const Where& where) {
    if (above >= kMaxDepth) stop(where, "nested deeper than " + std::to_string(kMaxDepth) + " levels");
  }

  // "?" is no tag; "!" stands for quotes. On a list or a mapping it was written.
  void check_tag(const std::string& tag, bool quoted, const Where& where) {
    if (tag.empty() || tag == "?" || quoted) return;
    faults_->add(where, "expected a value without a YAML tag, got the tag '" + tag + "'");
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().data->kind == Node::Kind::map && !open_.back().has_key;
  }

  // Key path of the node that comes next.
  std::string child_path() const {
    if (open_.empty()) return path_;
    const Open& parent = open_.back();
    if (parent.data->kind == Node::Kind::list) {
      return parent.data->where.key + "[" + std::to_string(parent.data->items.size()) + "]";
    }
    return parent.has_key ? parent.key_where.key : parent.data->where.key;
  }

  void refuse_key(const YAML::Mark& mark) {
    Open& map = open_.back();
    map.has_key = true;
    map.drops_value = true;
    map.key_where = place(mark, map.data->where.key);
    faults_->add(map.key_where, "expected a key that is a plain text");
  }

  void take_key(const Data& key) {
    Open& map = open_.back();
    map.has_key = true;
    map.key = key.text;
    map.key_where = key.where;
    const auto [earlier, is_new] = map.first.emplace(key.text, key.where);
    const bool is_merge = key.text == "<<" && !key.quoted;
    map.drops_value = is_merge || !is_new;
    if (is_merge) {
      faults_->add(key.where, "merge keys ('<<') are not supported", "write the keys out");
    } else if (!is_new) {
      faults_->add(key.where, "the key '" + key.text + "' is given twice", {}, {earlier->second});
    }
  }

  void enter(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Open opened;
    opened.data = std::make_shared<Data>();
    opened.data->kind = kind;
    opened.data->where = place(mark, child_path());
    opened.anchor = anchor;
    opened.is_key = expects_key();
    count(mark);
    check_tag(tag, false, opened.data->where);
    check_depth(depth_ + open_.size(), opened.data->where);
    if (opened.is_key) refuse_key(mark);
    open_.push_back(std::move(opened));
  }

  void leave() {
    const Open closed = std::move(open_.back());
    open_.pop_back();
    if (closed.is_key) {
      if (closed.anchor != YAML::NullAnchor) anchored_[closed.anchor] = closed.data;
      return;
    }
    finish(closed.data, closed.anchor);
  }

  // Hands a value that is complete to the list or mapping around it.
  void finish(const DataPointer& data, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchored_[anchor] = data;
    if (open_.empty()) {
      root_ = data;
      return;
    }
    Open& parent = open_.back();
    if (parent.data->kind == Node::Kind::list) {
      parent.data->items.push_back(data);
      return;
    }
    if (!parent.drops_value) parent.data->entries.push_back({parent.key, parent.key_where, data});
    parent.has_key = false;
  }

  // What an alias stands for: the places stay where the text is, the key paths are those of the use.
  DataPointer copy(const Data& data, const std::string& path, const YAML::Mark& mark, std::size_t above) {
    count(mark);
    if (data.kind == Node::Kind::list || data.kind == Node::Kind::map) check_depth(above, place(mark, path));
    auto result = std::make_shared<Data>();
    result->kind = data.kind;
    result->text = data.text;
    result->quoted = data.quoted;
    result->where = data.where;
    result->where.key = path;
    for (const DataPointer& item : data.items) {
      const std::string item_path = path + "[" + std::to_string(result->items.size()) + "]";
      result->items.push_back(copy(*item, item_path, mark, above + 1));
    }
    for (const Data::Entry& entry : data.entries) {
      Where key_where = entry.key_where;
      key_where.key = join(path, entry.key);
      const DataPointer value = copy(*entry.value, key_where.key, mark, above + 1);
      result->entries.push_back({entry.key, std::move(key_where), value});
    }
    return result;
  }

  std::string name_;
  std::string path_;
  std::size_t depth_;
  bool positions_;
  base::Faults* faults_;
  Where start_;
  DataPointer root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, DataPointer> anchored_;  // values with an anchor that are complete
  std::size_t nodes_ = 0;
};

// Only notes where a document starts.
class StartFinder final : public YAML::EventHandler {
 public:
  YAML::Mark start = YAML::Mark::null_mark();
  void OnDocumentStart(const YAML::Mark& mark) override { start = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

void parse_into(Builder& builder, const std::string& text, const std::string& path, base::Faults& faults) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  if (!parser.HandleNextDocument(builder)) return;
  StartFinder second;
  if (!parser.HandleNextDocument(second)) return;
  StartFinder third;
  // A token that begins nothing, such as a lone ',', is never consumed: the "documents" after it start at one place.
  const bool stuck = parser.HandleNextDocument(third) && third.start.pos == second.start.pos;
  faults.add(builder.place(second.start, path),
             stuck ? "not valid YAML: this begins no value" : "expected one document, got several");
}

}  // namespace

DataPointer parse_data(const std::string& text, const std::string& name, const std::string& path, std::size_t depth,
                       bool positions) {
  base::Faults faults;
  Builder builder(name, path, depth, positions, faults);
  try {
    base::require_utf8(text, name);
    parse_into(builder, text, path, faults);
  } catch (const Stop&) {
    // The fault is among the others already.
  } catch (const YAML::DeepRecursion& error) {
    // yaml-cpp itself stops at 500 levels, well before its stack ends.
    faults.add(builder.place(error.mark, path), "nested deeper than " + std::to_string(kMaxDepth) + " levels");
  } catch (const YAML::Exception& error) {
    // Alone: what was found before hangs on a structure that may not be the one that was meant.
    throw base::Error(builder.place(error.mark, path), "not valid YAML: " + error.msg);
  } catch (const base::Error& error) {
    if (positions) throw;
    faults.add(Where{name, 0, 0, path}, error.faults().front().message);
  }
  faults.throw_if_any();
  return builder.root();
}

}  // namespace moeplan::config
