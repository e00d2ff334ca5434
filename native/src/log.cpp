#include "log.h"

#include <llama.h>

#include <cstdio>
#include <map>
#include <mutex>

namespace lockgate {

namespace {

/** Lines that one failed call may leave; llama.cpp says the cause in its first lines. */
constexpr size_t MAX_CAPTURED_LINES = 16;
/** A line that never ends is cut here. */
constexpr size_t MAX_LINE_BYTES = 16 * 1024;

std::mutex sinks_mutex;
std::map<const void *, LogSink> & sinks() {
    // Never destroyed: threads of llama.cpp may log while the process exits.
    static auto * instance = new std::map<const void *, LogSink>();
    return *instance;
}

thread_local LogCapture * current_capture = nullptr;

/** One line in the making; llama.cpp writes some lines in several calls (GGML_LOG_LEVEL_CONT). */
struct PartialLine {
    LogLevel    level = LogLevel::info;
    std::string text;
};
thread_local PartialLine partial;

LogLevel level_of(ggml_log_level level) {
    switch (level) {
        case GGML_LOG_LEVEL_DEBUG: return LogLevel::debug;
        case GGML_LOG_LEVEL_WARN:  return LogLevel::warn;
        case GGML_LOG_LEVEL_ERROR: return LogLevel::error;
        default:                   return LogLevel::info;
    }
}

}  // namespace

void deliver_log_line(LogLevel level, const std::string & line) {
    if (line.empty()) {
        return;
    }
    const bool captured = level == LogLevel::error && current_capture != nullptr;
    if (captured && current_capture->lines_.size() < MAX_CAPTURED_LINES) {
        current_capture->lines_.push_back(line);
    }
    const std::lock_guard<std::mutex> lock(sinks_mutex);
    for (const auto & [owner, sink] : sinks()) {
        sink(level, line);
    }
    if (sinks().empty() && level == LogLevel::error && !captured) {
        std::fprintf(stderr, "%s\n", line.c_str());
    }
}

static void on_log(ggml_log_level level, const char * text, void *) {
    try {
        if (level != GGML_LOG_LEVEL_CONT) {
            partial.level = level_of(level);
        }
        for (const char * c = text; *c != '\0'; c++) {
            if (*c == '\n' || partial.text.size() >= MAX_LINE_BYTES) {
                deliver_log_line(partial.level, partial.text);
                partial.text.clear();
            }
            if (*c != '\n') {
                partial.text.push_back(*c);
            }
        }
    } catch (...) {
        // Out of memory: a lost log line must not end the caller, which is C code.
        partial.text.clear();
    }
}

const char * log_level_name(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return "debug";
        case LogLevel::info:  return "info";
        case LogLevel::warn:  return "warn";
        case LogLevel::error: return "error";
    }
    return "info";
}

void install_log() {
    llama_log_set(on_log, nullptr);
}

void set_log_sink(const void * owner, LogSink sink) {
    const std::lock_guard<std::mutex> lock(sinks_mutex);
    sinks()[owner] = std::move(sink);
}

void remove_log_sink(const void * owner) {
    const std::lock_guard<std::mutex> lock(sinks_mutex);
    sinks().erase(owner);
}

LogCapture::LogCapture() {
    current_capture = this;
}

LogCapture::~LogCapture() {
    current_capture = nullptr;
}

std::string LogCapture::reason(const std::string & fallback) const {
    if (lines_.empty()) {
        return fallback;
    }
    // The last line only repeats "failed to load model"; the cause stands before it.
    size_t index = lines_.size() - 1;
    while (index > 0 && lines_[index].find(": failed to load model") != std::string::npos) {
        index--;
    }
    const std::string & line  = lines_[index];
    const size_t        colon = line.find(": ");
    const bool function_name  = colon != std::string::npos && line.find(' ') > colon;
    return function_name ? line.substr(colon + 2) : line;
}

}  // namespace lockgate
