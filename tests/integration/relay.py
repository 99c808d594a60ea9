# SPDX-License-Identifier: GPL-2.0-or-later
"""A TCP relay on loopback that stands for a link that fails: cut, silent, refusing, or dying after so many bytes."""
import selectors
import socket
import threading


class Relay:
    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.pairs = set()
        self.silent = False  # takes what comes and passes nothing on
        self.refusing = False  # closes who comes
        self.budget = None  # bytes until all connections die, in both directions together
        self.cuts = 0
        self.stopped = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.stopped:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.target))
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (client, server)
            with self.lock:
                self.pairs.add(pair)
            threading.Thread(target=self._carry, args=(pair,), daemon=True).start()

    def _carry(self, pair):
        client, server = pair
        selector = selectors.DefaultSelector()
        selector.register(client, selectors.EVENT_READ, server)
        selector.register(server, selectors.EVENT_READ, client)
        try:
            while True:
                ready = selector.select(0.2)
                if pair not in self.pairs:
                    break
                if self.silent:
                    threading.Event().wait(0.05)
                    continue
                for key, _ in ready:
                    data = key.fileobj.recv(65536)
                    if not data:
                        return
                    data = self._charge(data)
                    key.data.sendall(data)
        except OSError:
            pass
        finally:
            with self.lock:
                self.pairs.discard(pair)
            for s in pair:
                s.close()

    def _charge(self, data):
        with self.lock:
            if self.budget is None:
                return data
            if len(data) < self.budget:
                self.budget -= len(data)
                return data
            data = data[:self.budget]
            self.budget = None
        self.cut()
        return data

    def cut(self):
        """All connections end now; in the middle of whatever they carry."""
        with self.lock:
            pairs, self.pairs = self.pairs, set()
        self.cuts += 1
        for pair in pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def stop(self):
        self.stopped = True
        self.listener.close()
        self.cut()
