#include "model_workers.h"

#include "js_errors.h"
#include "js_thread.h"
#include "model_handle.h"
#include "tokenizer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

namespace lockgate {

namespace {

constexpr auto PROGRESS_INTERVAL = std::chrono::milliseconds(50);

/** One load under way. The thread writes the result, the JavaScript thread reads it after the thread has ended. */
struct Load {
    explicit Load(Napi::Env env, LoadRequest to_load) :
        request(std::move(to_load)), deferred(Napi::Promise::Deferred::New(env)) {}

    LoadRequest                  request;
    Napi::Promise::Deferred      deferred;
    std::atomic<bool>            cancelled{false};
    std::atomic<float>           fraction{0};
    float                        reported = 0;  // JavaScript thread
    std::shared_ptr<LoadedModel> model;
    std::unique_ptr<Failure>     failure;

    void run(JsThread & thread) {
        auto next_report = std::chrono::steady_clock::now();
        try {
            model = LoadedModel::load(request, [&](float now_at) {
                fraction = now_at;
                if (const auto now = std::chrono::steady_clock::now(); now >= next_report) {
                    next_report = now + PROGRESS_INTERVAL;
                    thread.wake();
                }
                return !cancelled;
            });
        } catch (...) {
            failure = std::make_unique<Failure>(current_failure());
        }
    }

    void report(Napi::Function on_progress) {
        if (const float now_at = fraction; now_at > reported) {
            reported = now_at;
            on_progress.Call({Napi::Number::New(on_progress.Env(), now_at)});
        }
    }

    void settle(Napi::Env env) {
        if (failure != nullptr) {
            deferred.Reject(to_js_error(env, failure->code, failure->what()).Value());
        } else if (cancelled) {
            // It came too late for the load, and in time for who asked.
            deferred.Reject(to_js_error(env, ErrorCode::cancelled, "the load was cancelled").Value());
        } else {
            deferred.Resolve(ModelHandle::create(env, std::move(model)));
        }
    }
};

/** A promise that settles when work() on Node's pool has ended. */
class PoolWork : public Napi::AsyncWorker {
  public:
    explicit PoolWork(Napi::Env env) : Napi::AsyncWorker(env), deferred_(Napi::Promise::Deferred::New(env)) {}

    Napi::Promise start() {
        const Napi::Promise promise = deferred_.Promise();
        Queue();
        return promise;
    }

  protected:
    virtual void        work() = 0;
    virtual Napi::Value result() { return Env().Undefined(); }

    void Execute() override {
        try {
            work();
        } catch (...) {
            failure_ = std::make_unique<Failure>(current_failure());
        }
    }
    void OnOK() override {
        if (failure_ != nullptr) {
            deferred_.Reject(to_js_error(Env(), failure_->code, failure_->what()).Value());
        } else {
            deferred_.Resolve(result());
        }
    }

  private:
    Napi::Promise::Deferred  deferred_;
    std::unique_ptr<Failure> failure_;
};

class Tokenize : public PoolWork {
  public:
    Tokenize(Napi::Env env, std::shared_ptr<LoadedModel> model, TokenizeRequest request) :
        PoolWork(env), model_(std::move(model)), request_(std::move(request)) {}

  protected:
    void work() override {
        tokens_ = tokenize_now(*model_, request_);
        // The last share of a closed model is dropped here, off the JavaScript thread.
        model_.reset();
    }
    Napi::Value result() override { return to_js_tokens(Env(), tokens_); }

  private:
    std::shared_ptr<LoadedModel> model_;
    TokenizeRequest              request_;
    std::vector<llama_token>     tokens_;
};

class Release : public PoolWork {
  public:
    Release(Napi::Env env, std::shared_ptr<LoadedModel> model) : PoolWork(env), model_(std::move(model)) {}

  protected:
    void work() override { model_.reset(); }

  private:
    std::shared_ptr<LoadedModel> model_;
};

}  // namespace

Napi::Object load_later(Napi::Env env, LoadRequest request, Napi::Function on_progress) {
    const auto load = std::make_shared<Load>(env, std::move(request));
    Napi::Object task = Napi::Object::New(env);
    task.Set("promise", load->deferred.Promise());
    task.Set("cancel", Napi::Function::New(env, [load](const Napi::CallbackInfo &) { load->cancelled = true; }));
    JsThread::start(env, on_progress, "lockgate load",
                    {.body         = [load](JsThread & thread) { load->run(thread); },
                     .request_stop = [load] { load->cancelled = true; },
                     .on_wake      = [load](Napi::Env, Napi::Function f) { load->report(f); },
                     .on_exit      = [load](Napi::Env e) { load->settle(e); }});
    return task;
}

std::vector<llama_token> tokenize_now(const LoadedModel & model, const TokenizeRequest & request) {
    return tokenize(model.vocab(), request.text, request.add_special, request.parse_special);
}

Napi::Int32Array to_js_tokens(Napi::Env env, const std::vector<llama_token> & tokens) {
    auto array = Napi::Int32Array::New(env, tokens.size());
    std::copy(tokens.begin(), tokens.end(), array.Data());
    return array;
}

Napi::Promise tokenize_later(Napi::Env env, std::shared_ptr<LoadedModel> model, TokenizeRequest request) {
    return (new Tokenize(env, std::move(model), std::move(request)))->start();
}

Napi::Promise release_later(Napi::Env env, std::shared_ptr<LoadedModel> model) {
    return (new Release(env, std::move(model)))->start();
}

}  // namespace lockgate
