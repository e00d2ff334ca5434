#include "affinity.h"

#include "errors.h"

#include <string>

#ifdef __linux__
#    include <sched.h>

#    include <cerrno>
#    include <cstring>
#    include <filesystem>
#    include <set>
#endif

namespace lockgate {

#ifdef __linux__

namespace {

/** Rounds over the thread list: a thread may start another between our reading the list and pinning it. */
constexpr int MAX_ROUNDS = 8;

/** The kernel knows best which cores are there and allowed; ask it on this thread, which is pinned for good later. */
void require_core(int32_t core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (core >= 0 && core < CPU_SETSIZE) {
        CPU_SET(core, &one);
        if (sched_setaffinity(0, sizeof(one), &one) == 0) {
            return;
        }
    }
    throw Failure(ErrorCode::invalid_argument, "cores: there is no CPU core " + std::to_string(core) + " for this process");
}

/** Throws nothing for a thread that has ended meanwhile. */
void pin_thread(pid_t thread, const cpu_set_t & set) {
    if (sched_setaffinity(thread, sizeof(set), &set) != 0 && errno != ESRCH) {
        throw Failure(ErrorCode::invalid_argument, std::string("cores: ") + std::strerror(errno));
    }
}

}  // namespace

void set_cpu_affinity(const std::vector<int32_t> & cores) {
    if (cores.empty()) {
        throw Failure(ErrorCode::invalid_argument, "cores must name at least one CPU core");
    }
    cpu_set_t before;
    sched_getaffinity(0, sizeof(before), &before);
    cpu_set_t set;
    CPU_ZERO(&set);
    try {
        for (const int32_t core : cores) {
            require_core(core);
            CPU_SET(core, &set);
        }
    } catch (const Failure &) {
        sched_setaffinity(0, sizeof(before), &before);
        throw;
    }
    std::set<pid_t> pinned;
    for (int round = 0; round < MAX_ROUNDS; round++) {
        const size_t known = pinned.size();
        for (const auto & entry : std::filesystem::directory_iterator("/proc/self/task")) {
            const pid_t thread = std::stoi(entry.path().filename().string());
            if (pinned.insert(thread).second) {
                pin_thread(thread, set);
            }
        }
        if (pinned.size() == known) {
            return;
        }
    }
}

#else

void set_cpu_affinity(const std::vector<int32_t> &) {
    throw Failure(ErrorCode::invalid_argument, "cores: pinning is not supported on this platform");
}

#endif

}  // namespace lockgate
