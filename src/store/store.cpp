// SPDX-License-Identifier: GPL-2.0-or-later
// The whole jobs of a store that has no shorter way for them.
#include "store/store.h"

#include "rt/ignore_result.h"

namespace ply::store {

rt::Task<Result<Attr>> File::write_last(std::uint64_t offset, Buffer data, std::vector<AttrChange> changes) {
  if (!data.empty()) {
    PLY_CO_CHECK(written, co_await write(offset, std::move(data)));
  }
  for (const AttrChange& change : changes) {
    PLY_CO_CHECK(changed, co_await set_attr(change));
  }
  co_return co_await stat();
}

rt::Task<Result<SmallFile>> Store::read_file(std::string path, std::size_t max_size, std::size_t expected,
                                             Urgency urgency) {
  (void)expected;
  if (urgency == Urgency::Ahead) co_return Errc::Busy;
  OpenMode mode;
  mode.read = true;
  PLY_CO_TRY(opened, co_await open(path, mode));
  auto data = co_await opened.file->read(0, max_size);
  co_await rt::ignore_result(opened.file->close());  // nothing was written
  if (!data) co_return std::move(data).error();
  SmallFile file;
  file.attr = opened.attr;
  file.data = std::move(*data);
  co_return std::move(file);
}

rt::Task<Result<Attr>> Store::write_file(std::string path, WholeFile file) {
  OpenMode mode;
  mode.write = true;
  mode.truncate = file.replace;
  Result<Opened> opened = Errc::Failure;
  if (file.replace) opened = co_await open(path, mode);
  else opened = co_await create(path, mode, file.node, Confirm::Attributes);
  if (!opened) co_return std::move(opened).error();
  File& target = *opened->file;
  Status done;
  if (!file.data->empty()) done = co_await target.write(0, Buffer::copy_of(file.data->span()));
  if (done && file.mtime) {
    AttrChange times;
    times.atime = file.atime;
    times.mtime = file.mtime;
    done = co_await target.set_attr(times);
  }
  auto attr = co_await target.stat();
  Status closed = co_await target.close();
  if (!done) co_return std::move(done).error();
  if (!closed) co_return std::move(closed).error();
  co_return std::move(attr);
}

rt::Task<Result<Attr>> Store::append_file(std::string path, std::uint64_t base_size,
                                          std::shared_ptr<const Buffer> data) {
  (void)base_size;
  OpenMode mode;
  mode.write = true;
  mode.append = true;
  PLY_CO_TRY(opened, co_await open(path, mode));
  Status done = co_await opened.file->write(0, Buffer::copy_of(data->span()));
  auto attr = co_await opened.file->stat();
  Status closed = co_await opened.file->close();
  if (!done) co_return std::move(done).error();
  if (!closed) co_return std::move(closed).error();
  co_return std::move(attr);
}

}  // namespace ply::store
