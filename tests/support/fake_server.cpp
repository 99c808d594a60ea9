// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/fake_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "sftp/request.h"

namespace ply::test {

using sftp::PacketType;
using sftp::Reader;
using sftp::StatusCode;
using sftp::Writer;
namespace ext = sftp::extension;

namespace {

/// A reply packet whose length is filled in at the end.
class Packet {
 public:
  Packet(PacketType type, std::uint32_t id) : out_(bytes_) {
    out_.u32(0);
    out_.u8(static_cast<std::uint8_t>(type));
    out_.u32(id);
  }
  Writer& out() { return out_; }
  Buffer finish() {
    const std::size_t length = bytes_.size() - 4;
    for (std::size_t i = 0; i < 4; ++i) bytes_.data()[i] = static_cast<std::byte>(length >> (24 - 8 * i));
    return std::move(bytes_);
  }

 private:
  Buffer bytes_;
  Writer out_;
};

void put_attrs(Writer& out, const FakeNode& node) {
  const Attr attr = node.attr();
  out.u32(sftp::kAttrSize | sftp::kAttrUidGid | sftp::kAttrPermissions | sftp::kAttrTimes);
  out.u64(attr.size);
  out.u32(attr.uid);
  out.u32(attr.gid);
  out.u32(mode_of_type(attr.type) | attr.mode);
  out.u32(static_cast<std::uint32_t>(attr.atime));
  out.u32(static_cast<std::uint32_t>(attr.mtime));
}

/// sftp-server.c's errno_to_portable().
StatusCode code_of(int failure) {
  switch (failure) {
    case 0: return StatusCode::Ok;
    case ENOENT:
    case ENOTDIR:
    case EBADF:
    case ELOOP: return StatusCode::NoSuchFile;
    case EPERM:
    case EACCES:
    case EFAULT: return StatusCode::PermissionDenied;
    case ENAMETOOLONG:
    case EINVAL: return StatusCode::BadMessage;
    case ENOSYS: return StatusCode::OpUnsupported;
    default: return StatusCode::Failure;
  }
}

}  // namespace

std::size_t FakeServer::open_handles() const {
  return static_cast<std::size_t>(
      std::count_if(handles_.begin(), handles_.end(), [](const Handle& handle) { return handle.used; }));
}

void FakeServer::receive(ByteSpan bytes) {
  input_.append(bytes);
  for (;;) {
    if (input_.size() < 4) return;
    const std::uint32_t length = Reader(input_.span()).u32();
    if (input_.size() < 4 + length) return;
    Buffer packet = Buffer::copy_of(input_.span().subspan(4, length));
    input_.drop_front(4 + length);
    const auto type = static_cast<PacketType>(packet.data()[0]);
    if (type == PacketType::Init) {
      Buffer reply;
      if (!personality_.banner.empty()) reply.append(as_bytes(personality_.banner));
      reply.append(version_packet().span());
      send(std::move(reply));
    } else if (personality_.out_of_order) {
      const auto shared = std::make_shared<Buffer>(std::move(packet));
      loop_.after(std::chrono::microseconds(loop_.pick(20000)), [self = shared_from_this(), shared] {
        if (!self->gone) self->serve(std::move(*shared));
      });
    } else if (!personality_.opens_overtake || !hold_back(packet)) {
      serve(std::move(packet));
    }
  }
}

bool FakeServer::hold_back(Buffer& packet) {
  if (static_cast<PacketType>(packet.data()[0]) != PacketType::Open) return false;
  constexpr int kHonestOpens = 10;
  if (++opens_ <= kHonestOpens) return false;
  if (held_) {
    // This one first, then the one that came before it.
    Buffer earlier = std::move(*held_);
    held_.reset();
    serve(std::move(packet));
    serve(std::move(earlier));
    return true;
  }
  if (loop_.chance(0.7)) return false;
  held_ = std::move(packet);
  loop_.after(std::chrono::milliseconds(5), [self = shared_from_this()] {
    if (!self->held_) return;
    Buffer late = std::move(*self->held_);
    self->held_.reset();
    self->serve(std::move(late));
  });
  return true;
}

void FakeServer::serve(Buffer packet) {
  tree_.now = loop_.wall_seconds();
  Reader in(packet.span());
  const auto type = static_cast<PacketType>(in.u8());
  const std::uint32_t id = in.u32();
  ++served[type];
  Buffer reply = answer(type, id, in);
  if (tamper) {
    auto changed = tamper(type, std::move(reply));
    if (!changed) return;
    reply = std::move(*changed);
  }
  send(std::move(reply));
}

Buffer FakeServer::version_packet() const {
  Buffer bytes;
  Writer out(bytes);
  Buffer body;
  Writer fields(body);
  fields.u8(static_cast<std::uint8_t>(PacketType::Version));
  fields.u32(personality_.version);
  if (personality_.extensions) {
    for (const std::string_view name : {ext::kPosixRename, ext::kHardlink, ext::kFsync, ext::kLsetstat, ext::kLimits,
                                        ext::kExpandPath, ext::kCopyData, ext::kHomeDirectory}) {
      fields.string(name);
      fields.string("1");
    }
    for (const std::string_view name : {ext::kStatvfs, ext::kFstatvfs}) {
      fields.string(name);
      fields.string("2");
    }
  }
  out.u32(static_cast<std::uint32_t>(body.size()));
  bytes.append(body.span());
  return bytes;
}

Buffer FakeServer::status_code(std::uint32_t id, StatusCode code) const {
  static constexpr const char* kTexts[] = {"Success",           "End of file",     "No such file",
                                           "Permission denied", "Failure",         "Bad message",
                                           "No connection",     "Connection lost", "Operation unsupported"};
  Packet packet(PacketType::Status, id);
  packet.out().u32(static_cast<std::uint32_t>(code));
  packet.out().string(kTexts[static_cast<std::uint32_t>(code)]);
  packet.out().string("");
  return packet.finish();
}

Buffer FakeServer::status(std::uint32_t id, int failure) const {
  return status_code(id, code_of(failure));
}

Buffer FakeServer::attributes(std::uint32_t id, const FakeNode& node) const {
  Packet packet(PacketType::Attrs, id);
  put_attrs(packet.out(), node);
  return packet.finish();
}

Buffer FakeServer::name(std::uint32_t id, const std::string& text) const {
  Packet packet(PacketType::Name, id);
  packet.out().u32(1);
  packet.out().string(text);
  packet.out().string(text);
  packet.out().u32(0);
  return packet.finish();
}

Buffer FakeServer::handle_reply(std::uint32_t id, Handle handle) {
  if (open_handles() >= personality_.max_handles) return status(id, EMFILE);
  std::size_t index = handles_.size();
  if (free_handles_.empty()) {
    handles_.emplace_back();
  } else {
    index = free_handles_.back();
    free_handles_.pop_back();
  }
  handle.used = true;
  handles_[index] = std::move(handle);
  Packet packet(PacketType::Handle, id);
  packet.out().u32(4);
  packet.out().u32(static_cast<std::uint32_t>(index));
  return packet.finish();
}

FakeServer::Handle* FakeServer::find_handle(std::string_view text) {
  if (text.size() != 4) return nullptr;
  const std::uint32_t index = Reader(as_bytes(text)).u32();
  return index < handles_.size() && handles_[index].used ? &handles_[index] : nullptr;
}

Buffer FakeServer::open(std::uint32_t id, Reader& in) {
  const std::string path(in.string());
  const std::uint32_t flags = in.u32();
  const std::uint32_t attr_flags = in.u32();
  const std::uint32_t mode = attr_flags & sftp::kAttrPermissions ? in.u32() : 0666;
  if (personality_.refuse_append && (flags & sftp::kOpenAppend)) return status_code(id, StatusCode::OpUnsupported);
  if (personality_.refuse_read_write && (flags & 3) == 3) return status_code(id, StatusCode::OpUnsupported);
  int failure = 0;
  FakeNodePtr node;
  if (flags & sftp::kOpenCreate) failure = tree_.create(path, mode, (flags & sftp::kOpenExclusive) != 0, node);
  else node = tree_.find(path, true, failure);
  if (failure != 0) return status(id, failure);
  if (node->type == FileType::Directory && (flags & sftp::kOpenWrite)) return status(id, EISDIR);
  if (flags & sftp::kOpenTruncate) tree_.truncate(*node, 0);
  Handle handle;
  handle.node = node;
  handle.append = (flags & sftp::kOpenAppend) != 0;
  handle.read = (flags & sftp::kOpenRead) != 0;
  handle.write = (flags & sftp::kOpenWrite) != 0;
  return handle_reply(id, std::move(handle));
}

Buffer FakeServer::read(std::uint32_t id, Reader& in) {
  Handle* const handle = find_handle(in.string());
  const std::uint64_t offset = in.u64();
  std::uint64_t length = in.u32();
  if (!handle || !handle->read) return status(id, EBADF);
  const std::string& data = handle->node->data;
  if (offset >= data.size()) return status_code(id, StatusCode::Eof);
  length = std::min({length, personality_.max_transfer, data.size() - offset});
  if (personality_.short_reads && length > 1) length = 1 + loop_.pick(length);
  Packet packet(PacketType::Data, id);
  packet.out().string(std::string_view(data).substr(offset, length));
  return packet.finish();
}

Buffer FakeServer::write(std::uint32_t id, Reader& in) {
  Handle* const handle = find_handle(in.string());
  const std::uint64_t offset = in.u64();
  const std::string_view data = in.string();
  if (!handle || !handle->write) return status(id, EBADF);
  return status(id, tree_.write(*handle->node, handle->append ? handle->node->data.size() : offset, data));
}

int FakeServer::set_attributes(FakeNode& node, Reader& in) {
  const std::uint32_t flags = in.u32();
  int failure = 0;
  const auto note = [&](int value) { failure = value != 0 ? value : failure; };
  // sftp-server's order: size, mode, times, owner; the last failure is told.
  const std::uint64_t size = flags & sftp::kAttrSize ? in.u64() : 0;
  const std::uint32_t uid = flags & sftp::kAttrUidGid ? in.u32() : 0;
  const std::uint32_t gid = flags & sftp::kAttrUidGid ? in.u32() : 0;
  if (flags & sftp::kAttrSize) note(tree_.truncate(node, size));
  if (flags & sftp::kAttrPermissions) node.mode = in.u32() & kPermissionBits;
  if (flags & sftp::kAttrTimes) {
    node.atime = in.u32();
    node.mtime = in.u32();
  }
  if (flags & sftp::kAttrUidGid) note(tree_.chown(node, uid, gid));
  return failure;
}

Buffer FakeServer::read_directory(std::uint32_t id, Reader& in) {
  constexpr std::size_t kBatch = 100;
  Handle* const handle = find_handle(in.string());
  if (!handle) return status(id, EBADF);
  if (handle->position >= handle->listing.size()) return status_code(id, StatusCode::Eof);
  const std::size_t end = std::min(handle->position + kBatch, handle->listing.size());
  Packet packet(PacketType::Name, id);
  packet.out().u32(static_cast<std::uint32_t>(end - handle->position));
  for (; handle->position < end; ++handle->position) {
    const auto& [entry_name, node] = handle->listing[handle->position];
    packet.out().string(entry_name);
    packet.out().string(fmt::format("-rw-r--r-- {:>4} user     group    {:>8} Jan  1 00:00 {}", node->nlink,
                                    node->data.size(), entry_name));
    put_attrs(packet.out(), *node);
  }
  return packet.finish();
}

Buffer FakeServer::statvfs(std::uint32_t id) const {
  Packet packet(PacketType::ExtendedReply, id);
  const std::uint64_t total = tree_.capacity / 4096;
  const std::uint64_t left = (tree_.capacity - std::min(tree_.capacity, tree_.used())) / 4096;
  for (const std::uint64_t value :
       {std::uint64_t{4096}, std::uint64_t{4096}, total, left, left, std::uint64_t{1000}, std::uint64_t{900},
        std::uint64_t{900}, std::uint64_t{7}, std::uint64_t{0}, std::uint64_t{255}})
    packet.out().u64(value);
  return packet.finish();
}

Buffer FakeServer::copy_data(std::uint32_t id, Reader& in) {
  Handle* const from = find_handle(in.string());
  const std::uint64_t from_offset = in.u64();
  const std::uint64_t length = in.u64();
  Handle* const to = find_handle(in.string());
  const std::uint64_t to_offset = in.u64();
  if (!from || !to || from->node == to->node) return status_code(id, StatusCode::Failure);
  const std::string& data = from->node->data;
  if (from_offset + length > data.size()) return status_code(id, StatusCode::Eof);
  return status(id, tree_.write(*to->node, to_offset, data.substr(from_offset, length)));
}

Buffer FakeServer::answer_extended(std::uint32_t id, Reader& in) {
  const std::string_view what = in.string();
  if (!personality_.extensions) return status_code(id, StatusCode::OpUnsupported);
  if (what == ext::kLimits) {
    Packet packet(PacketType::ExtendedReply, id);
    for (const std::uint64_t value :
         {std::uint64_t{262144}, personality_.max_transfer, personality_.max_transfer, personality_.max_handles})
      packet.out().u64(value);
    return packet.finish();
  }
  if (what == ext::kStatvfs || what == ext::kFstatvfs) return statvfs(id);
  if (what == ext::kFsync) return status(id, find_handle(in.string()) ? 0 : EBADF);
  if (what == ext::kCopyData) return copy_data(id, in);
  const std::string first(in.string());
  if (what == ext::kPosixRename) return status(id, tree_.rename(first, in.string(), true));
  if (what == ext::kHardlink) return status(id, tree_.link(first, in.string()));
  if (what == ext::kLsetstat) {
    int failure = 0;
    const FakeNodePtr node = tree_.find(first, false, failure);
    return status(id, node ? set_attributes(*node, in) : failure);
  }
  return status_code(id, StatusCode::OpUnsupported);
}

Buffer FakeServer::answer(PacketType type, std::uint32_t id, Reader& in) {
  int failure = 0;
  switch (type) {
    case PacketType::Open: return open(id, in);
    case PacketType::Read: return read(id, in);
    case PacketType::Write: return write(id, in);
    case PacketType::Readdir: return read_directory(id, in);
    case PacketType::Extended: return answer_extended(id, in);
    case PacketType::Close: {
      const std::string_view text = in.string();
      Handle* const handle = find_handle(text);
      if (!handle) return status(id, EBADF);
      *handle = Handle();
      free_handles_.push_back(static_cast<std::size_t>(handle - handles_.data()));
      return status(id, 0);
    }
    case PacketType::Lstat:
    case PacketType::Stat: {
      const FakeNodePtr node = tree_.find(in.string(), type == PacketType::Stat, failure);
      return node ? attributes(id, *node) : status(id, failure);
    }
    case PacketType::Fstat: {
      Handle* const handle = find_handle(in.string());
      return handle ? attributes(id, *handle->node) : status(id, EBADF);
    }
    case PacketType::Setstat: {
      if (personality_.refuse_setstat) return status_code(id, StatusCode::OpUnsupported);
      const FakeNodePtr node = tree_.find(in.string(), true, failure);
      return status(id, node ? set_attributes(*node, in) : failure);
    }
    case PacketType::Fsetstat: {
      if (personality_.refuse_setstat) return status_code(id, StatusCode::OpUnsupported);
      Handle* const handle = find_handle(in.string());
      return status(id, handle ? set_attributes(*handle->node, in) : EBADF);
    }
    case PacketType::Opendir: {
      const FakeNodePtr node = tree_.find(in.string(), true, failure);
      if (!node) return status(id, failure);
      if (node->type != FileType::Directory) return status(id, ENOTDIR);
      Handle handle;
      handle.node = node;
      handle.listing.emplace_back(".", node);
      handle.listing.emplace_back("..", node);
      handle.listing.insert(handle.listing.end(), node->children.begin(), node->children.end());
      return handle_reply(id, std::move(handle));
    }
    case PacketType::Remove: return status(id, tree_.unlink(in.string()));
    case PacketType::Rmdir: return status(id, tree_.rmdir(in.string()));
    case PacketType::Mkdir: {
      const std::string path(in.string());
      const std::uint32_t flags = in.u32();
      return status(id, tree_.mkdir(path, flags & sftp::kAttrPermissions ? in.u32() : 0777));
    }
    case PacketType::Realpath: return name(id, std::string(in.string()));
    case PacketType::Rename: {
      const std::string from(in.string());
      return status(id, tree_.rename(from, in.string(), false));
    }
    case PacketType::Readlink: {
      const FakeNodePtr node = tree_.find(in.string(), false, failure);
      if (!node) return status(id, failure);
      return node->type == FileType::Symlink ? name(id, node->data) : status(id, EINVAL);
    }
    case PacketType::Symlink: {
      const std::string target(in.string());
      return status(id, tree_.symlink(target, in.string()));
    }
    default: return status_code(id, StatusCode::OpUnsupported);
  }
}

namespace {

/// The client's end of a simulated connection. Deliveries keep their order although each chunk draws its own delay.
class SimStream final : public rt::ByteStream {
 public:
  SimStream(SimLoop& loop, std::shared_ptr<FakeServer> server, rt::Duration delay)
      : loop_(loop), server_(std::move(server)), delay_(delay) {
    server_->send = [this, alive = alive_](Buffer bytes) {
      if (*alive) to_client_.push_back({arrival(last_to_client_), std::move(bytes)}), schedule_client();
    };
  }
  ~SimStream() override { close(); }

  void start(Sink& sink) override { sink_ = &sink; }
  void write(Buffer bytes) override {
    if (!*alive_) return;
    to_server_.push_back(std::move(bytes));
    loop_.after(arrival(last_to_server_) - loop_.now(), [this, alive = alive_] {
      if (!*alive) return;
      const Buffer arrived = std::move(to_server_.front());
      to_server_.pop_front();
      server_->receive(arrived.span());
    });
  }
  std::size_t unsent_bytes() const override { return 0; }
  void close() override {
    *alive_ = false;
    server_->send = [](Buffer) {};
  }
  void cut() {
    if (!*alive_) return;
    close();
    // Any part of what is on its way may still arrive.
    while (!to_server_.empty() && loop_.chance(0.5)) {
      const Buffer arrived = std::move(to_server_.front());
      to_server_.pop_front();
      const bool whole = loop_.chance(0.7);
      server_->receive(arrived.span().first(whole ? arrived.size() : loop_.pick(arrived.size() + 1)));
      if (!whole) break;
    }
    server_->gone = true;
    loop_.post([sink = sink_, open = open_] {
      if (*open) sink->on_closed(Error(Errc::ConnectionLost, "cut by the test"));
    });
  }
  std::shared_ptr<bool> open_flag() const { return open_; }
  void forget_sink() { *open_ = false; }

 private:
  struct Delivery {
    rt::TimePoint when;
    Buffer bytes;
  };

  rt::TimePoint arrival(rt::TimePoint& last) {
    last = std::max(last, loop_.now() + delay_);
    return last;
  }
  void schedule_client() {
    loop_.after(to_client_.back().when - loop_.now(), [this, alive = alive_] {
      if (*alive) deliver(alive);
    });
  }
  void deliver(const std::shared_ptr<bool>& alive) {
    while (*alive && !to_client_.empty() && to_client_.front().when <= loop_.now()) {
      Buffer& bytes = to_client_.front().bytes;
      const std::span<std::byte> space = sink_->receive_space();
      const std::size_t most = std::min(space.size(), bytes.size());
      const std::size_t chunk = loop_.chance(0.5) ? most : 1 + loop_.pick(most);
      std::memcpy(space.data(), bytes.data(), chunk);
      bytes.drop_front(chunk);
      if (bytes.empty()) to_client_.pop_front();
      sink_->on_received(chunk);
    }
  }

  SimLoop& loop_;
  std::shared_ptr<FakeServer> server_;
  rt::Duration delay_;
  Sink* sink_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);
  rt::TimePoint last_to_server_{};
  rt::TimePoint last_to_client_{};
  std::deque<Buffer> to_server_;
  std::deque<Delivery> to_client_;
};

/// Forgets its SimStream when that is gone.
class OwnedStream final : public rt::ByteStream {
 public:
  OwnedStream(SimLoop& loop, std::shared_ptr<FakeServer> server, rt::Duration delay)
      : inner_(std::make_shared<SimStream>(loop, std::move(server), delay)) {}
  ~OwnedStream() override {
    inner_->close();
    inner_->forget_sink();
  }
  void start(Sink& sink) override { inner_->start(sink); }
  void write(Buffer bytes) override { inner_->write(std::move(bytes)); }
  std::size_t unsent_bytes() const override { return 0; }
  void close() override { inner_->close(); }
  std::weak_ptr<SimStream> inner() const { return inner_; }

 private:
  std::shared_ptr<SimStream> inner_;
};

std::function<void()> cutter(const OwnedStream& stream) {
  return [inner = stream.inner()] {
    if (const auto alive = inner.lock()) alive->cut();
  };
}

}  // namespace

rt::Task<Result<std::unique_ptr<rt::ByteStream>>> FakeDialer::dial_lane() {
  if (lane_servers.size() >= max_lanes) ++lanes_refused;
  if (lane_servers.size() >= max_lanes) co_return Error(Errc::ConnectionLost, "refused by the test");
  lane_servers.push_back(std::make_shared<FakeServer>(loop_, tree_, personality_));
  auto stream = std::make_unique<OwnedStream>(loop_, lane_servers.back(), delay_);
  cuts_.push_back(cutter(*stream));
  co_return Result<std::unique_ptr<rt::ByteStream>>(std::move(stream));
}

void FakeDialer::cut_all() {
  login_lost_ = true;
  for (const auto& cut_one : std::exchange(cuts_, {})) cut_one();
}

std::vector<std::shared_ptr<FakeServer>> FakeDialer::servers() const {
  std::vector<std::shared_ptr<FakeServer>> all = lane_servers;
  if (server) all.push_back(server);
  return all;
}

rt::Task<Result<std::unique_ptr<rt::ByteStream>>> FakeDialer::dial() {
  ++dials;
  if (refuse) co_return Error(Errc::ConnectionLost, "refused by the test");
  server = std::make_shared<FakeServer>(loop_, tree_, personality_);
  server->tamper = tamper;
  auto stream = std::make_unique<OwnedStream>(loop_, server, delay_);
  if (login_lost_) {
    lane_servers.clear();
    cuts_.clear();
  }
  login_lost_ = false;
  cut = cutter(*stream);
  cuts_.push_back(cut);
  co_return Result<std::unique_ptr<rt::ByteStream>>(std::move(stream));
}

std::unique_ptr<rt::Dialer> FakeDialer::quiet_twin() {
  if (twin_tree == nullptr) return nullptr;
  auto made = std::make_unique<FakeDialer>(loop_, *twin_tree, personality_, delay_);
  made->refuse = refuse_twins;
  twin = made.get();
  if (on_twin) on_twin(*made);
  return made;
}

}  // namespace ply::test
