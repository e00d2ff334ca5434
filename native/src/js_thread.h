// A C++ thread whose news reach JavaScript: any number of wake() calls between two visits of the event loop give one call.
// It ends before its environment does, whatever state it is in: a worker that is terminated runs cleanup hooks, a process
// that exits runs none, so lib/load-addon.js calls end_all() on `exit`. Otherwise exit() would take llama.cpp's globals
// from under a decode.
#pragma once

#include <napi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>

namespace lockgate {

class JsThread {
  public:
    struct Hooks {
        /** The thread's body. Throws nothing. */
        std::function<void(JsThread & thread)> body;
        /** Makes the body return soon; called from the JavaScript thread, perhaps more than once. */
        std::function<void()> request_stop;
        /** On the JavaScript thread, some time after a wake(). */
        std::function<void(Napi::Env env, Napi::Function callback)> on_wake;
        /** On the JavaScript thread, once, after the last on_wake. Not called when the environment ends first. */
        std::function<void(Napi::Env env)> on_exit;
    };

    /** Starts body. `callback` is kept alive and handed to on_wake. */
    static std::shared_ptr<JsThread> start(Napi::Env env, Napi::Function callback, const char * name, Hooks hooks);

    /** Ends all threads of this environment and waits for them. Their last news are not delivered. */
    static void end_all(Napi::Env env);

    JsThread() = default;
    JsThread(const JsThread &) = delete;
    JsThread & operator=(const JsThread &) = delete;

    /** From the thread's body. */
    void wake();
    /** Whether the thread keeps the process alive (at first it does). From the JavaScript thread. */
    void set_ref(Napi::Env env, bool ref);

  private:
    using Owner = std::shared_ptr<JsThread>;
    static void on_call(Napi::Env env, Napi::Function callback, Owner * owner, void * data);
    using Function = Napi::TypedThreadSafeFunction<Owner, void, &JsThread::on_call>;

    void finish(Napi::Env env);
    void end();
    static void on_environment_end(JsThread * self);

    Hooks                                            hooks_;
    Function                                         function_;
    Napi::Env::CleanupHook<void (*)(JsThread *), JsThread> cleanup_hook_;
    std::thread                                      thread_;
    std::atomic<bool>                                wake_pending_{false};
    std::atomic<bool>                                body_returned_{false};
    bool                                             finished_ = false;  // JavaScript thread
    bool                                             ref_      = true;   // JavaScript thread
};

/** The threads of one environment that have not ended. */
using JsThreads = std::set<JsThread *>;

}  // namespace lockgate
