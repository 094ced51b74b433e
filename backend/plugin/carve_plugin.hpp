/*
 * carve_plugin.hpp: optional C++11 beside carve_plugin.h. It depends on the C++ library's headers alone and may be copied.
 *
 * No exception may leave a function of the table. carve::guarded turns a function that may throw into an entry that does not:
 *
 *     static void compile(uint64_t b, const carve_graph *g, const carve_options *o, uint64_t *out) { ...; throw carve::refused("no"); }
 *     ...
 *     table.compile = CARVE_GUARD(compile);
 *
 * The function has the entry's parameters without the last one, carve_error *err, where the entry has one; what it throws fills
 * err and is the entry's status. It returns nothing, which is CARVE_OK, or an int32_t, which is the status. Entries
 * without err take a function of the same parameters, by CARVE_GUARD_PLAIN: their status is all that is told.
 *
 *     carve::error          any status, with a text and the index of an operand
 *     carve::refused        CARVE_REFUSED
 *     carve::not_contiguous CARVE_NEEDS_CONTIGUOUS, with the index of the input
 *     std::bad_alloc        CARVE_OUT_OF_MEMORY
 *     std::invalid_argument, std::out_of_range    CARVE_BAD_ARGUMENT
 *     std::exception        CARVE_FAILED, with its text
 *     anything else         CARVE_FAILED
 */
#ifndef CARVE_PLUGIN_HPP
#define CARVE_PLUGIN_HPP

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "carve_plugin.h"

namespace carve {

// error is a status below 0 with its text.
class error : public std::runtime_error {
 public:
  error(int32_t status, const std::string &text, int32_t index = -1) : std::runtime_error(text), status_(status), index_(index) {}
  int32_t status() const noexcept { return status_; }
  int32_t index() const noexcept { return index_; }

 private:
  int32_t status_, index_;
};

// refused gives a group to another backend.
class refused : public error {
 public:
  explicit refused(const std::string &text) : error(CARVE_REFUSED, text) {}
};

// not_contiguous has an input come again in compact storage.
class not_contiguous : public error {
 public:
  not_contiguous(int32_t input, const std::string &text) : error(CARVE_NEEDS_CONTIGUOUS, text, input) {}
};

// text is a carve_str of a text that lives as long as the object that was asked.
inline carve_str text(const char *s) noexcept { return carve_str{s, std::strlen(s)}; }

// equal compares a text of the host's.
inline bool equal(const carve_str &s, const char *t) noexcept { return s.len == std::strlen(t) && std::memcmp(s.data, t, s.len) == 0; }

// fill writes an error, and returns its status.
inline int32_t fill(carve_error *err, int32_t status, const char *what, int32_t index = -1) noexcept {
  if (err != nullptr) {
    err->index = index;
    if (err->text != nullptr) {
      const uint64_t n = std::strlen(what);
      err->len = n < err->cap ? n : err->cap;
      std::memcpy(err->text, what, static_cast<size_t>(err->len));
    }
  }
  return status;
}

// caught turns the exception that is being handled into a status.
inline int32_t caught(carve_error *err) noexcept {
  try {
    throw;
  } catch (const error &e) {
    return fill(err, e.status() < 0 ? e.status() : CARVE_FAILED, e.what(), e.index());
  } catch (const std::bad_alloc &) {
    return fill(err, CARVE_OUT_OF_MEMORY, "out of memory");
  } catch (const std::invalid_argument &e) {
    return fill(err, CARVE_BAD_ARGUMENT, e.what());
  } catch (const std::out_of_range &e) {
    return fill(err, CARVE_BAD_ARGUMENT, e.what());
  } catch (const std::exception &e) {
    return fill(err, CARVE_FAILED, e.what());
  } catch (...) {
    return fill(err, CARVE_FAILED, "an exception that is no std::exception");
  }
}

template <typename F, F f>
struct guarded;

template <typename... A, void (*f)(A...)>
struct guarded<void (*)(A...), f> {
  static int32_t with_error(A... a, carve_error *err) noexcept {
    try {
      return f(a...), CARVE_OK;
    } catch (...) {
      return caught(err);
    }
  }
  static int32_t plain(A... a) noexcept {
    try {
      return f(a...), CARVE_OK;
    } catch (...) {
      return caught(nullptr);
    }
  }
};

template <typename... A, int32_t (*f)(A...)>
struct guarded<int32_t (*)(A...), f> {
  static int32_t with_error(A... a, carve_error *err) noexcept {
    try {
      return f(a...);
    } catch (...) {
      return caught(err);
    }
  }
  static int32_t plain(A... a) noexcept {
    try {
      return f(a...);
    } catch (...) {
      return caught(nullptr);
    }
  }
};

// handle is the number of an object, object the object of a number.
template <typename T>
uint64_t handle(T *p) noexcept {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p));
}

template <typename T>
T &object(uint64_t h) {
  if (h == 0) throw std::invalid_argument("a handle of 0");
  return *reinterpret_cast<T *>(static_cast<uintptr_t>(h));
}

}  // namespace carve

#define CARVE_GUARD(f) (&carve::guarded<decltype(&f), &f>::with_error)
#define CARVE_GUARD_PLAIN(f) (&carve::guarded<decltype(&f), &f>::plain)

#endif  // CARVE_PLUGIN_HPP
