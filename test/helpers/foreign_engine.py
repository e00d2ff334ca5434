"""An engine of the base grammar (unbatched, untagged) in another language, for the tests of `engine.command`.

It answers with the ids of the first message, so that the text that comes back is known, and an end token. The request's seed chooses how it
behaves; its INFO lines tell what it was started with. It has no model, and knows the ids of the built-in model's template alone. Its first
word is a folder that all engines of a test share.
"""

import os
import select
import sys

MESSAGE_BEGIN, MESSAGE_END = 1022, 1023
TOKEN_PAUSE_S = 0.002
DEAF_PAUSE_S = 0.05

# Seeds of a request, and what each stands for.
PLAIN, REFUSE, ENDLESS, DEAF, GARBAGE, HANG_ONCE = 0, 1, 2, 3, 4, 5
SHORT_DONE = {10: 5, 11: 8, 12: 10, 13: 13, 14: 14}  # fields of DONE


class Pipe:
    """Lines from stdin, waited for or only looked for."""

    def __init__(self):
        self.rest = b""
        self.ended = False

    def line(self, wait_s):
        """The next line; None for none within the time (None: for ever) or the end of the input."""
        while b"\n" not in self.rest and not self.ended:
            if not select.select([0], [], [], wait_s)[0]:
                return None
            chunk = os.read(0, 65536)
            self.ended = chunk == b""
            self.rest += chunk
        line, cut, self.rest = self.rest.partition(b"\n")
        return line.decode() if cut else None


def say(text):
    os.write(1, (text + "\n").encode())


def done(generated, prompt, finish, fields):
    whole = [generated, prompt, "1.5", "2.5", finish, 0, 0, 0, 0, 0, 0, 0, "0.0", prompt, 0]
    say("DONE " + " ".join(str(word) for word in whole[:fields]))


def is_first(folder):
    """True for the first of all engines that asks."""
    try:
        os.close(os.open(os.path.join(folder, "hung"), os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def generate(pipe, words):
    options = dict(word.split("=", 1) for word in words[2:-1])
    ids = [int(word) for word in words[-1].split(",")]
    seed = int(options.get("seed", PLAIN))
    most = int(words[1])
    if seed == REFUSE:
        say("ERR this is refused")
        return
    begin = ids.index(MESSAGE_BEGIN) + 1
    message = ids[begin : ids.index(MESSAGE_END)]
    say(f"PP {len(ids)} {len(ids)} 1.5 1000.0")
    fields = SHORT_DONE.get(seed, 15)
    repeats = seed in (ENDLESS, DEAF)
    if seed == HANG_ONCE and is_first(sys.argv[1]):
        while pipe.line(None) is not None:
            pass  # reads every command and does nothing about it
        return
    sent = 0
    while sent < most:
        if seed == GARBAGE and sent == 2:
            say("T four")
            return
        token = message[sent % len(message)] if repeats or sent < len(message) else MESSAGE_END
        say(f"T {token}")
        sent += 1
        if token == MESSAGE_END:
            done(sent, len(ids), "stop", fields)
            return
        if pipe.line(DEAF_PAUSE_S if seed == DEAF else TOKEN_PAUSE_S) == "STOP" and seed != DEAF:
            done(sent, len(ids), "cancel", fields)
            return
    done(sent, len(ids), "length", fields)


def main():
    told = " ".join(sys.argv[2:])
    say(f"INFO pid={os.getpid()} {told} cuda={os.environ.get('CUDA_VISIBLE_DEVICES', 'none')}")
    keys = [name for name in os.environ if name in ("LOCKGATE_LOCAL_KEY", "LOCKGATE_SIGNING_KEYS")]
    say(f"INFO keys={len(keys)}")
    say("READY 2048 stop")
    pipe = Pipe()
    while True:
        line = pipe.line(None)
        if line is None or line == "QUIT":
            return
        words = line.split(" ")
        if words[0] == "GEN":
            generate(pipe, words)
        # A STOP that finds no turn is a stale one.


main()
