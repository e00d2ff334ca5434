#include "js_thread.h"

#include "addon_data.h"

namespace lockgate {

std::shared_ptr<JsThread> JsThread::start(Napi::Env env, Napi::Function callback, const char * name, Hooks hooks) {
    auto self    = std::make_shared<JsThread>();
    self->hooks_ = std::move(hooks);
    // The thread-safe function owns the object; its hooks may own whoever started the thread, so that circle is cut here.
    const auto release = [](Napi::Env, void *, Owner * owner) {
        (*owner)->hooks_ = {};
        delete owner;
    };
    self->function_ = Function::New(env, callback, name, 0, 1, new Owner(self), release, static_cast<void *>(nullptr));
    // Cleanup hooks run last in, first out: this one joins the thread before the function above is torn down.
    self->cleanup_hook_ = env.AddCleanupHook(&JsThread::on_environment_end, self.get());
    self->thread_       = std::thread([raw = self.get()] {
        raw->hooks_.body(*raw);
        raw->body_returned_ = true;
        raw->wake();
    });
    env.GetInstanceData<AddonData>()->threads.insert(self.get());
    return self;
}

void JsThread::wake() {
    if (!wake_pending_.exchange(true)) {
        // While the environment ends this says so and does nothing, which is right.
        function_.NonBlockingCall();
    }
}

void JsThread::set_ref(Napi::Env env, bool ref) {
    if (ref_ == ref || finished_) {
        return;
    }
    ref_ = ref;
    if (ref) {
        function_.Ref(env);
    } else {
        function_.Unref(env);
    }
}

void JsThread::on_call(Napi::Env env, Napi::Function callback, Owner * owner, void *) {
    if (static_cast<napi_env>(env) == nullptr || (*owner)->finished_) {
        return;
    }
    const Owner self = *owner;
    // Before on_wake takes the news: what comes after it gets a wake of its own.
    self->wake_pending_ = false;
    const bool last     = self->body_returned_;
    self->hooks_.on_wake(env, callback);
    if (last) {
        self->finish(env);
    }
}

void JsThread::finish(Napi::Env env) {
    finished_ = true;
    thread_.join();
    cleanup_hook_.Remove(env);
    env.GetInstanceData<AddonData>()->threads.erase(this);
    const auto on_exit = std::move(hooks_.on_exit);
    function_.Release();
    on_exit(env);
}

void JsThread::end() {
    if (!finished_) {
        finished_ = true;
        hooks_.request_stop();
        thread_.join();
    }
}

void JsThread::on_environment_end(JsThread * self) {
    self->end();
}

void JsThread::end_all(Napi::Env env) {
    for (JsThread * thread : env.GetInstanceData<AddonData>()->threads) {
        thread->end();
    }
}

}  // namespace lockgate
