// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/session.h"

#include <algorithm>

namespace ply::store {

namespace {
// What a packet needs beside the data of a READ reply or a WRITE: length, type, id, handle, offset, length.
constexpr std::uint64_t kPacketOverhead = 1024;
// Left for what opens something for a moment: listings, follow-up questions.
constexpr std::uint64_t kSpareHandles = 16;

std::uint32_t transfer_size(std::uint64_t stated, std::uint64_t max_packet) {
  if (stated == 0) return sftp::kDefaultTransfer;
  const std::uint64_t packet =
      max_packet > 2 * kPacketOverhead ? max_packet - kPacketOverhead : sftp::kMaxRequestLength - kPacketOverhead;
  const std::uint64_t ours = sftp::kMaxRequestLength - kPacketOverhead;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(std::min({stated, packet, ours}), 512));
}
}  // namespace

Session::Session(rt::Loop& loop, std::unique_ptr<sftp::Channel> channel, std::shared_ptr<Connection> connection)
    : loop_(loop), channel_(std::move(channel)), connection_(std::move(connection)) {}

void Connection::note_change(const AttrChange& change, const Status& outcome) {
  const bool connected = outcome.ok() || !outcome.failed_with(Errc::ConnectionLost);
  if (!connected) return;
  if (change.uid || change.gid) sets_owner = outcome.ok();
  else if (change.mode || change.mtime) sets_attributes = outcome.ok();
}

bool Session::has(std::string_view extension) const {
  const bool second = extension == sftp::extension::kStatvfs || extension == sftp::extension::kFstatvfs;
  return channel_->server().has(extension, second ? "2" : "1");
}

rt::Task<void> Session::learn_limits() {
  if (!has(sftp::extension::kLimits)) co_return;
  auto reply = co_await channel_->call(sftp::extension::limits());
  if (!reply) co_return;
  auto limits = sftp::parse_limits(*reply);
  if (!limits) co_return;
  max_read_ = transfer_size(limits->max_read, limits->max_packet);
  max_write_ = transfer_size(limits->max_write, limits->max_packet);
  max_handles_ = limits->max_handles;
}

bool Session::is_full() const {
  return max_handles_ > 0 && handles_ + std::min(kSpareHandles, max_handles_ / 2) >= max_handles_;
}

void Session::limit_transfers(std::uint32_t max_read, std::uint32_t max_write) {
  if (max_read != 0) max_read_ = std::min(max_read_, max_read);
  if (max_write != 0) max_write_ = std::min(max_write_, max_write);
}

rt::Task<Status> Session::status_call(sftp::Request request) {
  PLY_CO_TRY(reply, co_await channel_->call(std::move(request)));
  co_return sftp::parse_status(reply);
}

rt::Task<Result<Attr>> Session::attrs_call(sftp::Request request) {
  PLY_CO_TRY(reply, co_await channel_->call(std::move(request)));
  co_return sftp::parse_attrs(reply);
}

rt::Task<Result<std::string>> Session::handle_call(sftp::Request request) {
  // Counted from here on, so that opens under way don't exceed the limit together.
  ++handles_;
  auto reply = co_await channel_->call(std::move(request));
  Result<std::string> handle = Errc::Failure;
  if (reply) handle = sftp::parse_handle(*reply);
  else handle = std::move(reply).error();
  if (!handle) --handles_;
  co_return std::move(handle);
}

rt::Task<Result<std::string>> Session::name_call(sftp::Request request) {
  PLY_CO_TRY(reply, co_await channel_->call(std::move(request)));
  co_return sftp::parse_single_name(reply);
}

rt::Task<Result<FsStats>> Session::statvfs_call(sftp::Request request) {
  PLY_CO_TRY(reply, co_await channel_->call(std::move(request)));
  co_return sftp::parse_statvfs(reply);
}

rt::Task<Result<std::optional<std::vector<sftp::NameEntry>>>> Session::names_call(sftp::Request request) {
  PLY_CO_TRY(reply, co_await channel_->call(std::move(request)));
  co_return sftp::parse_names(reply);
}

rt::Task<Result<Buffer>> Session::data_call(sftp::Request request) {
  PLY_CO_TRY(reply, co_await channel_->call(std::move(request)));
  co_return sftp::parse_data(std::move(reply));
}

rt::Task<Result<Attr>> Session::lstat(std::string path) {
  co_return co_await attrs_call(sftp::make_simple(sftp::PacketType::Lstat, path));
}

rt::Task<Status> Session::close_handle(std::string handle, sftp::Sending sending) {
  auto reply = co_await channel_->call(sftp::make_simple(sftp::PacketType::Close, handle), sending);
  --handles_;
  if (!reply) co_return std::move(reply).error();
  co_return sftp::parse_status(*reply);
}

}  // namespace ply::store
