// Stands before libllama (LD_PRELOAD) and refuses one call of llama_decode(): the one that LOCKGATE_FAIL_DECODE_AT names.
// Test code; nothing of it is in the addon.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// The layout of llama.h's llama_batch: passed by value, so the interposed function must take it alike.
struct Batch {
    int32_t    n_tokens;
    int32_t *  token;
    float *    embd;
    int32_t *  pos;
    int32_t *  n_seq_id;
    int32_t ** seq_id;
    int8_t *   logits;
};

using Decode = int32_t (*)(void * context, Batch batch);

int find_libllama(dl_phdr_info * info, size_t, void * found) {
    if (std::strstr(info->dlpi_name, "/libllama.") == nullptr) {
        return 0;
    }
    *static_cast<const char **>(found) = info->dlpi_name;
    return 1;
}

// RTLD_NEXT does not reach a library that the addon brought with it, so look it up by name.
Decode real_decode() {
    const char * path = nullptr;
    dl_iterate_phdr(find_libllama, &path);
    void * library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<Decode>(dlsym(library, "llama_decode"));
}

int calls = 0;

}  // namespace

extern "C" int32_t llama_decode(void * context, Batch batch) {
    static const Decode real    = real_decode();
    static const char * fail_at = std::getenv("LOCKGATE_FAIL_DECODE_AT");
    const bool          refuse  = fail_at != nullptr && ++calls == std::atoi(fail_at);
    return refuse ? -3 : real(context, batch);
}
