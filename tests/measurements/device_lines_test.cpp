#include "measurements/device_lines.h"

#include <doctest/doctest.h>

#include "measurements/predict.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"

namespace moeplan::measurements {
namespace {

// A line of the program, with the fields that every line has.
std::string line(const std::string& record, const std::string& fields, const std::string& driver = "580.1") {
  return R"({"schema":"moeplan.device/1","record":")" + record +
         R"(","program":"moeplan-device 0.1.0","gpu":"NVIDIA H200","driver":")" + driver + R"(","cuda":"13.0")" +
         (fields.empty() ? "" : "," + fields) + "}\n";
}
std::string device() { return line("device", R"("max_sm_mhz":1980,"power_limit_w":700)"); }
std::string product(const std::string& time, const std::string& driver = "580.1") {
  return line("measurement",
              R"("op":"fwd","dtype":"bf16","layout":"TN","m":8192,"n":8192,"k":8192,"library":"cublasLt 13.1.0",)"
              R"("time_us":)" +
                  time + R"(,"graph":true,"sm_mhz":1755,"slowdown":"power cap","samples_us":[1410.5,1411])",
              driver);
}
std::string end(int lines) { return line("end", "\"lines\":" + std::to_string(lines)); }
MeasurementTable parse(const std::string& text) { return parse_measurements(text, "run.jsonl"); }

}  // namespace

TEST_CASE("a file of checks alone is read: what failed is counted, what is good is no fault") {
  const auto check = [](const char* good) {
    return std::string(
               R"({"schema":"moeplan.device/1","record":"check","program":"moeplan-device 0.1.0","gpu":"NVIDIA )") +
           R"(H200","driver":"580","cuda":"13.0","what":"gemm","good":)" + good + "}\n";
  };
  const auto good = parse_measurements(check("1"), "check.jsonl"), bad = parse_measurements(check("0"), "check.jsonl");
  CHECK(good.rows.empty());
  REQUIRE(good.device != nullptr);
  CHECK(good.device->checks == 1);
  CHECK(good.device->failed_checks == 0);
  CHECK(bad.device->failed_checks == 1);
}

TEST_CASE("a whole run gives its rows, its device and its values, and nothing is set aside") {
  const MeasurementTable table =
      parse(device() + product("1411") + line("value", R"("key":"host.launch","value":3.2e-06,"how":"a loop")") +
            line("sustained", R"("rates_flops":[7.4e14])") +
            line("check", R"("what":"copy kernel","good":true,"error":0,"most":0)") +
            line("left_out", R"("what":"attention","why":"no library")") + end(6));
  REQUIRE(table.rows.size() == 1);
  const Measurement& row = table.rows.front();
  CHECK(row.status == Status::ok);
  CHECK(row.family == Family::gemm);
  CHECK(row.pass == cost::GemmPass::forward);
  CHECK(row.seconds == doctest::Approx(1411e-6));
  CHECK(row.sm_mhz == 1755);
  CHECK(row.slowdown == "power cap");
  CHECK(table.notes.empty());  // every column is known
  REQUIRE(table.device != nullptr);
  CHECK(table.device->set_aside.empty());
  REQUIRE(table.device->devices.size() == 1);
  CHECK(table.device->devices.front().max_sm_mhz == 1980);
  REQUIRE(table.device->values.size() == 1);
  CHECK(table.device->values.front().key == "host.launch");
  CHECK(table.device->values.front().value == 3.2e-6);
  CHECK(table.device->left_out == std::vector<std::string>{"attention: no library"});
}

TEST_CASE("values that no profile may hold are set aside with their line, as the profile's reader would say") {
  const MeasurementTable table = parse(device() + line("value", R"("key":"device.sm_count","value":131.5)") +
                                       line("value", R"("key":"device.sm_count","value":132)") +
                                       line("value", R"("key":"host.launch","value":1001)") +
                                       line("value", R"("key":"host.launch","value":3e-6)") + end(5));
  REQUIRE(table.device->values.size() == 2);
  CHECK(table.device->values[0].value == 132);
  CHECK(table.device->values[1].value == 3e-6);
  REQUIRE(table.device->set_aside.size() == 2);
  CHECK(table.device->set_aside[0].where.line == 2);
  CHECK(table.device->set_aside[0].message.find("device.sm_count: expected a whole number >= 1") != std::string::npos);
  CHECK(table.device->set_aside[1].where.line == 4);
  CHECK(table.device->set_aside[1].message.find("at most 1000, got 1001") != std::string::npos);
}

TEST_CASE("a run that was cut is said: without its end, or with an end that counts more lines than there are") {
  const MeasurementTable cut = parse(device() + product("1411"));
  REQUIRE(cut.device->set_aside.size() == 1);
  CHECK(cut.device->set_aside.front().message.find("cut short") != std::string::npos);
  CHECK(cut.rows.size() == 1);  // the whole lines count
  const MeasurementTable lost = parse(device() + product("1411") + end(3));
  REQUIRE(lost.device->set_aside.size() == 1);
  CHECK(lost.device->set_aside.front().where.line == 3);
  CHECK(lost.device->set_aside.front().message == "the run had 3 lines before this one, but 2 stand here");
  CHECK(parse(device() + product("1411") + end(2) + device() + product("1411") + end(2)).device->set_aside.empty());
  CHECK(parse(device() + device() + product("1411") + end(2)).device->set_aside.size() == 1);
}

TEST_CASE("a line that is cut in the middle, or whose time is no time, is set aside with its place") {
  const std::string whole = product("1411");
  const MeasurementTable table = parse(device() + whole.substr(0, whole.size() / 2) + "\n" + product("0") +
                                       product("-1") + product("NaN") + product("1e999"));
  REQUIRE(table.rows.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(table.rows[i].status == Status::error);
    CHECK(table.rows[i].where.line == static_cast<int>(i) + 2);
  }
  CHECK(table.rows[1].reason.find("expected a number > 0, got '0'") != std::string::npos);
}

TEST_CASE("rows of another driver than the file's first line are set aside: one fit has one set of versions") {
  const MeasurementTable table = parse(device() + product("1411") + product("1300", "581.2") + end(3));
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].status == Status::ok);
  CHECK(table.rows[1].status == Status::error);
  CHECK(table.rows[1].reason.find("mixed versions") != std::string::npos);
  CHECK(table.rows[1].reason.find("581.2") != std::string::npos);
}

TEST_CASE("schemas and records that this version does not know are no rows") {
  const MeasurementTable table =
      parse(device() + R"({"schema":"moeplan.device/2","gpu":"NVIDIA H200","op":"fwd","m":1,"n":1,"k":1,"time_us":1})" +
            "\n" + R"({"schema":"moeplan.layer/1","gpu":"NVIDIA H200","chunks":2})" + "\n" + product("1411") + end(4) +
            device() + line("thing", "") + end(2));
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[0].status == Status::error);
  CHECK(table.rows[0].reason.find("expected moeplan.device/1") != std::string::npos);
  CHECK(table.rows[1].status == Status::skipped);
  CHECK(table.rows[1].reason.find("validate --layer") != std::string::npos);
  CHECK(table.rows[2].status == Status::ok);
  const auto& aside = table.device->set_aside;
  REQUIRE(!aside.empty());
  CHECK(aside.back().message.find("got 'thing'") != std::string::npos);
}

TEST_CASE("values are of keys that are read off, and above zero") {
  const auto aside = [](const std::string& fields) {
    return parse(device() + product("1411") + line("value", fields) + end(3)).device->set_aside;
  };
  CHECK(aside(R"("key":"host.launch","value":1e-6)").empty());
  CHECK(aside(R"("key":"gemm.peak","value":1e15)").size() == 1);
  CHECK(aside(R"("key":"host.launch","value":0)").size() == 1);
  CHECK(aside(R"("key":"host.launch")").size() == 1);
}

TEST_CASE("a check of the program that failed is told") {
  const MeasurementTable table =
      parse(device() + product("1411") + line("check", R"("what":"fp8 product TN","good":false)") + end(3));
  REQUIRE(table.device->set_aside.size() == 1);
  CHECK(table.device->set_aside.front().message == "a check of the device program failed: fp8 product TN");
}

TEST_CASE("a pair is two ranks, the lower one first") {
  const auto pair = [](const std::string& text) {
    const MeasurementTable table =
        parse(device() +
              line("measurement",
                   R"("collective":"sendrecv","n_gpus":2,"n_nodes":1,"size_bytes":1024,"time_us":50,"pair":")" + text +
                       "\"") +
              end(2));
    REQUIRE(table.rows.size() == 1);
    return table.rows[0];
  };
  for (const char* good : {"0-1", "3-9", "9-10", "0-16777216"}) CHECK(pair(good).status == Status::ok);
  for (const char* bad :
       {"9", "3-3", "9-3", "3-", "-3", "1-2-3", "a-b", "0 - 1", "-1-2", "1--2", "0x1-2", "0-16777217"}) {
    const Measurement row = pair(bad);
    CHECK_MESSAGE(row.status == Status::error, bad);
    REQUIRE(row.faults.size() == 1);
    CHECK(row.faults[0].where.key == "pair");
    CHECK(row.faults[0].message.starts_with("expected two ranks, the lower one first"));
  }
}

TEST_CASE("grouped products have a group with rows") {
  const auto grouped = [](const std::string& rows) {
    const MeasurementTable table =
        parse(device() +
              line("measurement",
                   R"("op":"grouped_gemm_fwd","dtype":"bf16","n":64,"k":64,"time_us":50,"group_rows":)" + rows) +
              end(2));
    REQUIRE(table.rows.size() == 1);
    return table.rows[0];
  };
  CHECK(grouped("[0,1,0]").status == Status::ok);
  const Measurement none = grouped("[0,0,0]");
  CHECK(none.status == Status::error);
  REQUIRE(none.faults.size() == 1);
  CHECK(none.faults[0].message == "expected a group with rows, got 0 for all");
}

TEST_CASE("an uneven exchange is predicted from its byte matrix") {
  const auto exchange = [](const std::string& matrix) {
    const MeasurementTable table =
        parse(device() +
              line("measurement", R"("collective":"alltoallv","n_gpus":2,"n_nodes":1,"size_bytes":2000000,)"
                                  R"("byte_matrix":)" +
                                      matrix + R"(,"time_us":50)") +
              end(2));
    return table.rows.at(0);
  };
  const topology::HardwareProfile profile = load_profile("h200-sxm", {}, "test");
  const Measurement uneven = exchange("[0,2000000,1000,0]"), even = exchange("[0,1000000,1000000,0]");
  REQUIRE(uneven.status == Status::ok);
  // The busiest direction carries twice the bytes.
  CHECK(*predict(uneven, profile).seconds > 1.3 * *predict(even, profile).seconds);
  CHECK(exchange("[0,1]").status == Status::skipped);
  CHECK(exchange("[0,1,2,-1]").status == Status::error);
}

}  // namespace moeplan::measurements
