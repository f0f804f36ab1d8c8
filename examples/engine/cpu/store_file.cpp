// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/store_file.hpp"

#include <echo/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace engine::cpu {
namespace {

constexpr std::align_val_t page{mover::place_alignment};

/// The system takes somewhat less than 2 GiB.
constexpr std::uint64_t most_at_once = std::uint64_t{1} << 30;

std::string usual_folder() {
    const char* const named = std::getenv("TMPDIR");
    return named && *named ? named : "/tmp";
}

} // namespace

store_buffer::store_buffer() : at_(static_cast<std::byte*>(::operator new(size, page))) {
    std::memset(at_, 0, size);
}
store_buffer::~store_buffer() { ::operator delete(at_, page); }

store_file::store_file(std::string folder) : folder_(folder.empty() ? usual_folder() : std::move(folder)) {
    std::string name = folder_ + "/echo-offload-XXXXXX";
    file_ = mkostemp(name.data(), O_CLOEXEC);
    if (file_ < 0)
        throw echo::error({}, "offload", "no file can be made in " + folder_ + ": " + std::strerror(errno),
                          "name a folder that can be written to");
    unlink(name.c_str());
#ifdef STATX_DIOALIGN
    struct statx known {};
    if (statx(file_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &known) != 0) return;
    if (!(known.stx_mask & STATX_DIOALIGN) || known.stx_dio_offset_align == 0) return;
    if (known.stx_dio_offset_align > mover::place_alignment ||
        known.stx_dio_mem_align > mover::place_alignment)
        return;
    if (fcntl(file_, F_SETFL, O_DIRECT) != 0) return;
    memory_alignment_ = known.stx_dio_mem_align;
    offset_alignment_ = known.stx_dio_offset_align;
#endif
}
store_file::~store_file() { close(file_); }

/// What the file system takes at once from byte `first` of the transfer on: from its memory as far as that lies as it
/// must, or else through the buffer, with whole blocks of the file.
store_file::piece store_file::next_piece(const transfer& what, std::uint64_t first) const {
    const std::uint64_t rest = what.bytes - first;
    const std::uint64_t whole = std::min(rest - rest % offset_alignment_, most_at_once);
    const auto at = reinterpret_cast<std::uintptr_t>(what.at + first);
    if (at % memory_alignment_ == 0 && whole > 0) return {whole, whole, false};
    const std::uint64_t bytes = std::min<std::uint64_t>(rest, store_buffer::size);
    return {bytes, (bytes + offset_alignment_ - 1) / offset_alignment_ * offset_alignment_, true};
}

template <class Move>
void store_file::carry(const transfer& what, const char* key, const Move& move) const {
    for (std::uint64_t first = 0; first < what.bytes;) {
        const piece p = next_piece(what, first);
        const auto moved = move(p, first, static_cast<off_t>(what.place + first));
        if (moved < 0 && errno == EINTR) continue;
        const auto whole =
            moved < 0 ? 0 : static_cast<std::uint64_t>(moved) / offset_alignment_ * offset_alignment_;
        if (whole == 0)
            throw echo::error(what.name, key,
                              std::to_string(what.bytes) + " bytes do not travel by a file in " + folder_ +
                                  ": " + (moved < 0 ? std::strerror(errno) : "it ends early"),
                              "make room there or name another folder, or plan without offloading");
        first += std::min(whole, p.bytes);
    }
}

void store_file::write(const transfer& what, store_buffer& through) const {
    carry(what, "offload", [&](const piece& p, std::uint64_t first, off_t place) {
        if (p.through_buffer) std::memcpy(through.data(), what.at + first, p.bytes);
        return pwrite(file_, p.through_buffer ? through.data() : what.at + first, p.padded, place);
    });
}

void store_file::read(const transfer& what, store_buffer& through) const {
    carry(what, "reload", [&](const piece& p, std::uint64_t first, off_t place) {
        const auto moved = pread(file_, p.through_buffer ? through.data() : what.at + first, p.padded, place);
        if (p.through_buffer && moved > 0)
            std::memcpy(what.at + first, through.data(),
                        std::min(static_cast<std::uint64_t>(moved), p.bytes));
        return moved;
    });
}

} // namespace engine::cpu
