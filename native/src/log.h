// Where llama.cpp's log goes: to the sinks of the JavaScript environments, else error lines to stderr; never stdout.
// llama.cpp has one logger a process, so this is process-wide.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockgate {

enum class LogLevel { debug, info, warn, error };

const char * log_level_name(LogLevel level);

using LogSink = std::function<void(LogLevel level, const std::string & line)>;

/** Takes over llama.cpp's and ggml's log. Call once, before any other call into them. */
void install_log();

/** Adds or replaces the sink of `owner`. It is called from any thread and must neither block nor log. */
void set_log_sink(const void * owner, LogSink sink);

/** After this returns no thread calls the sink of `owner` again. */
void remove_log_sink(const void * owner);

/**
 * While it lives, error lines of this thread are kept for an error message instead of going to stderr
 * (sinks still get them). Not nested.
 */
class LogCapture {
  public:
    LogCapture();
    ~LogCapture();
    LogCapture(const LogCapture &) = delete;
    LogCapture & operator=(const LogCapture &) = delete;

    /** llama.cpp's own words for what went wrong, without the names of its functions; `fallback` when it said nothing. */
    std::string reason(const std::string & fallback) const;

  private:
    friend void deliver_log_line(LogLevel level, const std::string & line);
    std::vector<std::string> lines_;
};

}  // namespace lockgate
