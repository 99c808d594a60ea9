// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/compound_lane.h"

#include <algorithm>
#include <cassert>

namespace ply::store {

namespace {

using sftp::PacketType;
using sftp::Reply;
using sftp::Request;

/// Handle number 0 as sftp-server.c writes it.
constexpr std::string_view kHandle("\0\0\0\0", 4);

std::uint64_t size_of(const std::vector<Request>& unit) {
  std::uint64_t size = 0;
  for (const Request& request : unit) size += request.size();
  return size;
}

}  // namespace

CompoundLane::CompoundLane(rt::Loop& loop, std::shared_ptr<Session> session, Options options, Logger& log)
    : loop_(loop),
      session_(std::move(session)),
      options_(options),
      log_(log),
      budget_(loop, options.max_under_way),
      changed_(loop) {}

CompoundLane::~CompoundLane() {
  assert(under_way_ == 0);
}

void CompoundLane::close() {
  off_ = true;
  session_->channel().close(Error(Errc::ConnectionLost, "lane closed"));
}

rt::Task<std::unique_ptr<CompoundLane>> CompoundLane::open(rt::Loop& loop, std::shared_ptr<Session> session,
                                                           std::string directory, Options options, Logger& log) {
  std::unique_ptr<CompoundLane> lane(new CompoundLane(loop, std::move(session), options, log));
  const bool good = co_await lane->probe(std::move(directory));
  if (good) co_return std::move(lane);
  lane->close();
  co_return nullptr;
}

/// Units that harm nothing: in order, with the guessed handle, and the handle free again for the next. Then one whose
/// opening fails, which must not disturb the one behind it. Enough of them that a server of random order is found out.
rt::Task<bool> CompoundLane::probe(std::string directory) {
  constexpr std::size_t kUnits = 8;
  constexpr std::size_t kFailing = 2 * kUnits;
  std::vector<Request> unit;
  for (std::size_t i = 0; i < kUnits; ++i) {
    unit.push_back(sftp::make_simple(PacketType::Opendir, directory));
    unit.push_back(sftp::make_simple(PacketType::Close, kHandle));
  }
  unit.push_back(sftp::make_simple(PacketType::Close, kHandle));
  unit.push_back(sftp::make_simple(PacketType::Opendir, directory));
  unit.push_back(sftp::make_simple(PacketType::Close, kHandle));
  auto replies = co_await session_->channel().call_all(std::move(unit));
  if (!replies) co_return false;
  bool good = sftp::all_in_order(*replies);
  for (std::size_t i = 0; i < replies->size(); ++i) {
    const bool opens = i < kFailing ? i % 2 == 0 : i == kFailing + 1;
    const auto handle = sftp::parse_handle((*replies)[i]);
    if (opens) good = good && handle && *handle == kHandle;
    else good = good && sftp::parse_status((*replies)[i]).ok() == (i != kFailing);
  }
  if (!good) log_.debug("this server's handles can't be guessed: small files take their three round trips");
  co_return good;
}

void CompoundLane::switch_off(std::string_view why) {
  if (off_) return;
  off_ = true;
  log_.info("the short way for small files is switched off: {}", why);
}

rt::Task<void> CompoundLane::settle() {
  while (under_way_ > 0) co_await changed_.wait();
  // Whatever handle is still open goes with the channel.
  close();
}

bool CompoundLane::as_expected(const std::vector<Reply>& replies) {
  if (!sftp::all_in_order(replies)) return switch_off("the server answers out of order"), false;
  const auto handle = sftp::parse_handle(replies.front());
  if (handle && *handle != kHandle) return switch_off("the server gave an unexpected handle"), false;
  return true;
}

rt::Task<std::optional<Result<std::vector<Reply>>>> CompoundLane::run(std::vector<Request> unit, std::uint64_t data,
                                                                      Company company) {
  // Who is alone needs none of the budget: those who wait behind may hold all of it.
  const bool shared = company == Company::Shared;
  const std::uint64_t cost = shared ? std::min(size_of(unit) + data, options_.max_under_way) : 0;
  if (shared) co_await budget_.acquire(cost);
  while (alone_ && shared) co_await changed_.wait();
  if (!is_on()) {
    budget_.release(cost);
    co_return std::nullopt;
  }
  ++under_way_;
  rt::TimerId watchdog = 0;
  if (options_.watchdog > rt::Duration::zero())
    watchdog = loop_.after(options_.watchdog, [this] {
      switch_off("a request was not answered in time");
      session_->channel().close(Error(Errc::ConnectionLost, "not answered in time"));
    });
  auto replies = co_await session_->channel().call_all(std::move(unit));
  loop_.cancel(watchdog);
  --under_way_;
  budget_.release(cost);
  changed_.wake_all();
  if (replies && as_expected(*replies) && !off_) co_return std::move(replies);
  if (!off_) switch_off("its channel has ended");
  co_await settle();
  // What OPEN said, or why there is no answer, is still of use to whoever decides whether to do it again.
  co_return std::move(replies);
}

template <class T>
bool CompoundLane::begins_well(const std::optional<Result<std::vector<Reply>>>& replies, Outcome<T>& out) const {
  out.lost = replies && !*replies;
  if (!replies || !*replies) return false;
  const auto handle = sftp::parse_handle((*replies)->front());
  out.opened = handle.ok();
  if (off_) return false;
  if (!handle) out.answer = handle.error().clone();
  return out.opened;
}

rt::Task<CompoundLane::Outcome<CompoundLane::File>> CompoundLane::read(std::string path, std::size_t max_size,
                                                                       std::size_t expected) {
  std::vector<Request> unit;
  unit.push_back(sftp::make_open(path, sftp::kOpenRead, std::nullopt));
  unit.push_back(sftp::make_simple(PacketType::Fstat, kHandle));
  const std::size_t piece = session_->max_read();
  for (std::size_t offset = 0; offset < max_size; offset += piece)
    unit.push_back(
        sftp::make_read(kHandle, offset, static_cast<std::uint32_t>(std::min<std::size_t>(piece, max_size - offset))));
  unit.push_back(sftp::make_simple(PacketType::Close, kHandle));
  auto replies = co_await run(std::move(unit), std::min(max_size, expected), Company::Shared);
  Outcome<File> out;
  if (!begins_well(replies, out)) co_return std::move(out);
  std::vector<Reply>& all = **replies;
  auto attr = sftp::parse_attrs(all[1]);
  if (!attr) {
    out.answer = std::move(attr).error();
    co_return std::move(out);
  }
  File file;
  file.attr = *attr;
  for (std::size_t i = 2; i + 1 < all.size(); ++i) {
    auto part = sftp::parse_data(std::move(all[i]));
    if (!part) {
      out.answer = std::move(part).error();
      co_return std::move(out);
    }
    const std::size_t wanted = std::min(piece, max_size - file.data.size());
    if (part->size() > wanted) {
      out.answer = Error(Errc::Protocol, "more data than asked for");
      co_return std::move(out);
    }
    const bool full = part->size() == wanted;
    if (file.data.empty()) file.data = std::move(*part);
    else file.data.append(part->span());
    if (!full) break;  // what comes behind a short read is not its continuation
  }
  out.answer = std::move(file);
  co_return std::move(out);
}

rt::Task<CompoundLane::Outcome<CompoundLane::Listing>> CompoundLane::list(std::string path, std::size_t batches) {
  std::vector<Request> unit;
  unit.push_back(sftp::make_simple(PacketType::Opendir, path));
  for (std::size_t i = 0; i < batches; ++i) unit.push_back(sftp::make_simple(PacketType::Readdir, kHandle));
  unit.push_back(sftp::make_simple(PacketType::Close, kHandle));
  // A directory of the usual size answers some kilobytes.
  constexpr std::uint64_t kTypicalListing = 8 * 1024;
  auto replies = co_await run(std::move(unit), kTypicalListing, Company::Shared);
  Outcome<Listing> out;
  if (!begins_well(replies, out)) co_return std::move(out);
  std::vector<Reply>& all = **replies;
  Listing listing;
  for (std::size_t i = 1; i <= batches && !listing.complete; ++i) {
    auto names = sftp::parse_names(all[i]);
    if (!names) {
      out.answer = std::move(names).error();
      co_return std::move(out);
    }
    if (!*names) {
      listing.complete = true;
    } else {
      for (sftp::NameEntry& entry : **names) listing.entries.push_back(std::move(entry));
    }
  }
  out.answer = std::move(listing);
  co_return std::move(out);
}

CompoundLane::Outcome<Attr> CompoundLane::outcome_of_write(const std::optional<Result<std::vector<Reply>>>& replies,
                                                           std::size_t writes) const {
  Outcome<Attr> out;
  if (!begins_well(replies, out)) return out;
  const std::vector<Reply>& all = **replies;
  for (std::size_t i = 1; i <= writes; ++i) {
    Status written = sftp::parse_status(all[i]);
    if (written) continue;
    out.answer = std::move(written).error();
    return out;
  }
  // FSTAT stands last but one; a CLOSE that fails tells of a write that did not reach the disk.
  Status closed = sftp::parse_status(all.back());
  if (closed) out.answer = sftp::parse_attrs(all[all.size() - 2]);
  else out.answer = std::move(closed).error();
  return out;
}

rt::Task<CompoundLane::Outcome<Attr>> CompoundLane::write(Write what, std::shared_ptr<const Buffer> data) {
  std::vector<Request> unit;
  if (what.begin == Begin::Create)
    unit.push_back(sftp::make_open(what.path, sftp::kOpenWrite | sftp::kOpenCreate | sftp::kOpenExclusive, what.mode));
  else unit.push_back(sftp::make_open(what.path, sftp::kOpenWrite | sftp::kOpenTruncate, std::nullopt));
  const std::size_t piece = session_->max_write();
  std::size_t writes = 0;
  for (std::size_t offset = 0; offset < data->size(); offset += piece, ++writes)
    unit.push_back(
        sftp::make_write(kHandle, offset, data->span().subspan(offset, std::min(piece, data->size() - offset))));
  for (const AttrChange& change : what.changes) unit.push_back(sftp::make_fsetstat(kHandle, change));
  unit.push_back(sftp::make_simple(PacketType::Fstat, kHandle));
  unit.push_back(sftp::make_simple(PacketType::Close, kHandle));
  auto replies = co_await run(std::move(unit), 0, Company::Shared);
  co_return outcome_of_write(replies, writes);
}

rt::Task<CompoundLane::Outcome<Attr>> CompoundLane::append(std::string path, std::shared_ptr<const Buffer> data) {
  while (alone_) co_await changed_.wait();
  alone_ = true;
  while (under_way_ > 0) co_await changed_.wait();
  std::vector<Request> unit;
  unit.push_back(sftp::make_open(path, sftp::kOpenWrite | sftp::kOpenAppend, std::nullopt));
  // One request: a part of it could not be told from the whole afterwards.
  assert(data->size() <= session_->max_write());
  unit.push_back(sftp::make_write(kHandle, 0, data->span()));
  unit.push_back(sftp::make_simple(PacketType::Fstat, kHandle));
  unit.push_back(sftp::make_simple(PacketType::Close, kHandle));
  auto replies = co_await run(std::move(unit), 0, Company::Alone);
  alone_ = false;
  changed_.wake_all();
  Outcome<Attr> out;
  if (replies && !*replies) {
    // It was sent, and what became of it is not known.
    out.answer = std::move(*replies).error();
    co_return std::move(out);
  }
  if (replies && off_ && sftp::parse_status((**replies)[1])) {
    // Alone on the lane, only this file can have been behind the handle.
    out.opened = true;
    out.answer = sftp::parse_attrs((**replies)[2]);
    co_return std::move(out);
  }
  co_return outcome_of_write(replies, 1);
}

}  // namespace ply::store
