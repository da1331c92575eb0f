"""Runs many tasks in a few forked processes. Nothing is ever killed: whoever stops early lets the tasks in progress come to their own end."""
import multiprocessing
import multiprocessing.connection
import selectors
import signal

import client


def serve(pipe, others, prepare, work):
    for other in others:
        other.close()  # else the end of the main process would go unseen
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process hears it and tells us
    client.SELECTOR = selectors.DefaultSelector()  # a forked one would be shared
    with prepare() as state:
        try:
            while (task := pipe.recv()) is not None:
                pipe.send(work(state, *task))
        except (EOFError, BrokenPipeError):
            pass  # nobody wants more


def results(jobs, prepare, work, tasks):
    """Yields work(state, *task) of each task, in the order in which they end. prepare() is a context manager: what a worker needs for its whole life."""
    context = multiprocessing.get_context("fork")
    tasks = iter(tasks)
    pipes, processes = [], []
    for _ in range(jobs):
        ours, theirs = context.Pipe()
        pipes.append(ours)
        processes.append(context.Process(target=serve, args=(theirs, list(pipes), prepare, work)))
        processes[-1].start()
        theirs.close()
    busy = set()
    try:
        for pipe in pipes:
            if (task := next(tasks, None)) is not None:
                pipe.send(task)
                busy.add(pipe)
        while busy:
            for pipe in multiprocessing.connection.wait(busy):
                result = pipe.recv()
                busy.discard(pipe)
                if (task := next(tasks, None)) is not None:
                    pipe.send(task)
                    busy.add(pipe)
                yield result
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join()
