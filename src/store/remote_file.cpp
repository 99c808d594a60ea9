// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/remote_file.h"

#include <algorithm>
#include <cassert>

#include "rt/scope.h"
#include "store/cause.h"

namespace ply::store {

namespace {
// sftp-server does nothing else on the channel while it copies, so long copies go in pieces that others can come
// between.
constexpr std::uint64_t kCopyPiece = 4 << 20;

static_assert(File::kWriteHeadroom >= sftp::kWriteHeadroom);
}  // namespace

RemoteFile::RemoteFile(std::shared_ptr<Session> session, std::string handle, std::string path, Options options)
    : session_(std::move(session)),
      strands_(Strands::Strand{session_, std::move(handle)}, path, options.further),
      path_(std::move(path)),
      options_(options) {}

rt::Task<Result<Buffer>> RemoteFile::read_piece(std::uint64_t offset, std::size_t size) {
  Buffer whole;
  while (whole.size() < size) {
    const std::size_t left = size - whole.size();
    Pace& pace = session_->connection().down;
    const Pace::Passage passage = co_await pace.begin(left);
    Strands::Strand strand = strands_.next(left, pace.window());
    if (!read_handle_.empty()) strand.handle = read_handle_;
    const auto length = static_cast<std::uint32_t>(left);
    auto data = co_await strand.session->data_call(sftp::make_read(strand.handle, offset + whole.size(), length));
    pace.end(passage);
    if (!data) co_return std::move(data).error().during("read", path_);
    if (data->empty()) break;  // only EOF ends a file; a short read is continued
    if (data->size() > left) co_return Error(Errc::Protocol, "more data than asked for").during("read", path_);
    if (whole.empty()) whole = std::move(*data);
    else whole.append(data->span());
  }
  co_return std::move(whole);
}

rt::Task<Error> RemoteFile::explain(Attempt attempt, Error failure, std::uint64_t size) {
  failure = co_await find_cause(session_, attempt, std::move(failure), path_, std::string(), size);
  // The answer to a question about it was lost. Nothing was done: whoever resumes it will ask again.
  const bool lost = failure.is(Errc::Failure) && !is_alive();
  if (lost) co_return std::move(failure).as(Errc::ConnectionLost);
  co_return std::move(failure);
}

rt::Task<Status> RemoteFile::open_for_reading() {
  auto handle = co_await session_->handle_call(sftp::make_open(path_, sftp::kOpenRead, std::nullopt));
  if (!handle) co_return std::move(handle).error().during("open for reading", path_);
  if (!read_handle_.empty()) co_return co_await session_->close_handle(*handle);  // another reader was faster
  read_handle_ = *handle;
  co_return Status();
}

rt::Task<Result<Buffer>> RemoteFile::read(std::uint64_t offset, std::size_t size) {
  if (options_.write_only && read_handle_.empty()) {
    PLY_CO_CHECK(opened, co_await open_for_reading());
  }
  const std::size_t piece = session_->max_read();
  if (size <= piece) co_return co_await read_piece(offset, size);

  rt::Scope scope(session_->loop());
  std::vector<rt::Running<Result<Buffer>>> pieces;
  for (std::size_t start = 0; start < size; start += piece)
    pieces.push_back(rt::start(scope, read_piece(offset + start, std::min(piece, size - start))));
  co_await scope.join();

  Buffer whole;
  whole.reserve(size);
  for (auto& running : pieces) {
    PLY_CO_TRY(part, co_await running.join());
    whole.append(part.span());
    if (part.size() < piece) break;  // the file ended here; pieces behind it are past the end
  }
  co_return std::move(whole);
}

rt::Task<Status> RemoteFile::write(std::uint64_t offset, Buffer data) {
  if (options_.emulate_append) {
    PLY_CO_TRY(attr, co_await stat());
    offset = attr.size;
  }
  const std::size_t size = data.size();
  Status written = co_await write_pieces(offset, std::move(data));
  if (written) co_return written;
  Error failure = std::move(written).error();
  failure = co_await explain(Attempt::Write, std::move(failure), size);
  co_return std::move(failure).during("write", path_);
}

rt::Task<Status> RemoteFile::write_pieces(std::uint64_t offset, Buffer data) {
  const std::size_t piece = session_->max_write();
  if (data.size() <= piece) co_return co_await write_piece(offset, std::move(data));
  rt::Scope scope(session_->loop());
  std::vector<rt::Running<Status>> pieces;
  for (std::size_t start = 0; start < data.size(); start += piece) {
    const ByteSpan part = data.span().subspan(start, std::min(piece, data.size() - start));
    pieces.push_back(rt::start(scope, write_piece(offset + start, Buffer::copy_with_headroom(part, kWriteHeadroom))));
    // Appended pieces must arrive in order.
    if (options_.append) co_await scope.join();
  }
  co_await scope.join();
  for (auto& running : pieces) {
    PLY_CO_CHECK(status, co_await running.join());
  }
  co_return Status();
}

rt::Task<Status> RemoteFile::write_piece(std::uint64_t offset, Buffer data) {
  const std::size_t size = data.size();
  Pace& pace = session_->connection().up;
  const Pace::Passage passage = co_await pace.begin(size);
  const Strands::Strand strand = strands_.next(size, pace.window());
  Status written = co_await strand.session->status_call(sftp::make_write(strand.handle, offset, std::move(data)));
  pace.end(passage);
  co_return std::move(written);
}

rt::Task<Result<Attr>> RemoteFile::stat() {
  auto attr = co_await session_->attrs_call(sftp::make_simple(sftp::PacketType::Fstat, handle()));
  if (!attr) co_return std::move(attr).error().during("fstat", path_);
  co_return std::move(attr);
}

rt::Task<Status> RemoteFile::set_attr(AttrChange change) {
  const Attempt attempt = change.size ? Attempt::SetSize : Attempt::SetOther;
  Status done = co_await session_->status_call(sftp::make_fsetstat(handle(), change));
  session_->connection().note_change(change, done);
  if (done) co_return done;
  Error failure = std::move(done).error();
  const std::uint64_t size = change.size.value_or(0);
  failure = co_await explain(attempt, std::move(failure), size);
  co_return std::move(failure).during("set attributes of", path_);
}

rt::Task<Result<Attr>> RemoteFile::write_last(std::uint64_t offset, Buffer data, std::vector<AttrChange> changes) {
  if (!options_.in_order || options_.emulate_append || data.size() > session_->max_write())
    co_return co_await File::write_last(offset, std::move(data), std::move(changes));
  const std::size_t size = data.size();
  std::vector<sftp::Request> unit;
  if (size > 0) unit.push_back(sftp::make_write(handle(), offset, std::move(data)));
  for (const AttrChange& change : changes) unit.push_back(sftp::make_fsetstat(handle(), change));
  unit.push_back(sftp::make_simple(sftp::PacketType::Fstat, handle()));
  auto replies = co_await session_->channel().call_all(std::move(unit));
  if (!replies) co_return std::move(replies).error().during("write", path_);
  const std::size_t first_change = size > 0 ? 1 : 0;
  for (std::size_t i = 0; i + 1 < replies->size(); ++i) {
    Status done = sftp::parse_status((*replies)[i]);
    const bool writing = i < first_change;
    if (!writing) session_->connection().note_change(changes[i - first_change], done);
    if (done) continue;
    Error failure = std::move(done).error();
    const Attempt attempt = writing ? Attempt::Write : Attempt::SetOther;
    failure = co_await explain(attempt, std::move(failure), size);
    co_return std::move(failure).during(writing ? "write" : "set attributes of", path_);
  }
  if (!sftp::all_in_order(*replies)) {
    // Not served in their order after all: what was to be set is set again, now that the data is there.
    options_.in_order = false;
    co_return co_await File::write_last(offset, Buffer(), std::move(changes));
  }
  auto attr = sftp::parse_attrs(replies->back());
  if (!attr) co_return std::move(attr).error().during("fstat", path_);
  co_return std::move(attr);
}

rt::Task<Status> RemoteFile::sync() {
  if (!session_->has(sftp::extension::kFsync)) co_return Errc::Unsupported;
  // On the file's own handle: one that is opened now would not be told of writes that the server lost before.
  if (options_.further.lanes != nullptr) options_.further.lanes->expect_slow_file_lane();
  Status done = co_await session_->status_call(sftp::extension::fsync(handle()));
  if (!done) co_return std::move(done).error().during("fsync", path_);
  co_return Status();
}

rt::Task<Result<std::uint64_t>> RemoteFile::copy_from(File& source, std::uint64_t source_offset, std::uint64_t length,
                                                      std::uint64_t offset) {
  auto* const from = dynamic_cast<RemoteFile*>(&source);
  if (from == nullptr || from->session_ != session_ || !session_->has(sftp::extension::kCopyData))
    co_return Errc::Unsupported;
  PLY_CO_TRY(attr, co_await from->stat());
  // An early end of the source is a failure to copy-data, so no more is asked for than is there.
  const std::uint64_t available = attr.size > source_offset ? attr.size - source_offset : 0;
  const std::uint64_t total = std::min(length, available);
  for (std::uint64_t done = 0; done < total;) {
    const std::uint64_t step = std::min(kCopyPiece, total - done);
    Status copied = co_await session_->status_call(
        sftp::extension::copy_data(from->handle(), source_offset + done, step, handle(), offset + done));
    if (!copied && done > 0) co_return done;
    if (!copied) {
      Error failure = std::move(copied).error();
      failure = co_await explain(Attempt::Write, std::move(failure), step);
      co_return std::move(failure).during("copy to", path_);
    }
    done += step;
  }
  co_return total;
}

rt::Task<Status> RemoteFile::close(sftp::Sending sending) {
  if (!read_handle_.empty()) {
    Status reader_closed = co_await session_->close_handle(read_handle_, sending);
    (void)reader_closed;  // nothing was written through it
  }
  Status closed = co_await strands_.close(sending);
  if (!closed) co_return std::move(closed).error().during("close", path_);
  co_return Status();
}

}  // namespace ply::store
