// SPDX-License-Identifier: BSL-1.0
/// @file
/// `output_file`: a file that is either written whole or not at all. Bytes go to a file beside it, which
/// takes its name on `commit`. A name that ends in `.gz` is written compressed, since it will be read so.
#pragma once

#include "command_line/file_error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace echo::format {

/// Errors: `file_error`, which names the path: it cannot be made, written or renamed.
class output_file {
public:
    explicit output_file(const std::string& path) : path_(path), target_(path) {
        struct stat there = {};
        const bool exists = ::stat(path.c_str(), &there) == 0;
        if (exists && S_ISDIR(there.st_mode)) fail("is a directory");
        // What is no regular file (a pipe, /dev/null) can only be written to, not replaced.
        const bool replace = !exists || S_ISREG(there.st_mode);
        // A link is written through, not replaced.
        if (exists && replace)
            if (const std::unique_ptr<char, release> real{::realpath(path.c_str(), nullptr)})
                target_ = real.get();
        if (replace) temporary_ = target_ + "." + std::to_string(::getpid()) + ".tmp";
        const std::string& name = replace ? temporary_ : target_;
        const int flags = O_WRONLY | O_CLOEXEC | (replace ? O_CREAT | O_EXCL : 0);
        const mode_t mode = exists ? there.st_mode & 0777 : 0666;
        if (exists && replace && ::access(target_.c_str(), W_OK) != 0) fail(std::strerror(errno));
        const int descriptor = ::open(name.c_str(), flags, mode);
        if (descriptor < 0) {
            const int reason = errno;
            temporary_.clear(); // not ours
            fail(std::strerror(reason));
        }
        // "T": as it stands, without compression. Level 6 is zlib's own default.
        stream_.reset(::gzdopen(descriptor, path.ends_with(".gz") ? "wb6" : "wbT"));
        if (!stream_) {
            ::close(descriptor);
            discard();
            fail("no memory to write it");
        }
    }
    ~output_file() { discard(); }
    output_file(const output_file&) = delete;
    output_file& operator=(const output_file&) = delete;

    void write(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto part = bytes.substr(0, std::size_t{1} << 20);
            if (::gzwrite(stream_.get(), part.data(), static_cast<unsigned>(part.size())) <= 0) fail_write();
            bytes.remove_prefix(part.size());
        }
    }

    /// All bytes are in the file: whatever fails after this is not the disk's fault. Call before `commit`.
    void finish() {
        errno = 0;
        if (::gzclose(stream_.release()) != Z_OK) fail(errno ? std::strerror(errno) : "cannot be written");
    }

    /// Gives the file its name. Call after `finish`.
    void commit() {
        if (temporary_.empty()) return;
        if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(std::strerror(errno));
        temporary_.clear();
    }

private:
    struct release {
        void operator()(void* memory) const noexcept { std::free(memory); }
        void operator()(gzFile_s* stream) const noexcept { ::gzclose(stream); }
    };

    void discard() noexcept {
        stream_.reset();
        if (!temporary_.empty()) ::unlink(temporary_.c_str());
        temporary_.clear();
    }
    [[noreturn]] void fail_write() const {
        int code = 0;
        const char* const message = ::gzerror(stream_.get(), &code);
        fail(code == Z_ERRNO ? std::strerror(errno) : message);
    }
    [[noreturn]] void fail(std::string_view reason) const {
        throw file_error({}, path_, "cannot be written: " + std::string(reason),
                         "name a file in a writable folder that has room");
    }

    std::string path_, target_, temporary_;
    std::unique_ptr<gzFile_s, release> stream_;
};

} // namespace echo::format
