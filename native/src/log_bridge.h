// llama.cpp's log lines to a JavaScript handler of one environment.
#pragma once

#include "log.h"

#include <napi.h>

#include <memory>
#include <string>

namespace lockgate {

class LogBridge {
  public:
    /** From now on `handler` gets (level, text) of every line. It does not keep the process alive. */
    LogBridge(Napi::Env env, Napi::Function handler);
    /** Ends the delivery; lines that wait already still come. JavaScript thread only. */
    ~LogBridge();
    LogBridge(const LogBridge &) = delete;
    LogBridge & operator=(const LogBridge &) = delete;

  private:
    struct Line {
        LogLevel    level;
        std::string text;
    };
    static void call(Napi::Env env, Napi::Function handler, std::nullptr_t *, Line * line);
    static void on_environment_end(LogBridge * self);
    void        release();

    using Function = Napi::TypedThreadSafeFunction<std::nullptr_t, Line, &LogBridge::call>;

    Napi::Env                                               env_;
    Function                                                function_;
    Napi::Env::CleanupHook<void (*)(LogBridge *), LogBridge> cleanup_hook_;
    bool                                                    released_ = false;
};

/** `setLogHandler` of index.d.ts: a function (level, text), or null for the default. */
void set_log_handler(const Napi::CallbackInfo & info);

}  // namespace lockgate
