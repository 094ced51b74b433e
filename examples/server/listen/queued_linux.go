package listen

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeQueued has the system take no more connections for a listener, and returns those that it has taken and nobody has accepted.
func takeQueued(l net.Listener) (queued []net.Conn) {
	s, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	var list []int
	_ = raw.Control(func(fd uintptr) { // fails where it is closed
		for {
			c, _, err := unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
				continue
			}
			if err != nil {
				break
			}
			list = append(list, c)
		}
		_ = unix.Shutdown(int(fd), unix.SHUT_RD) // at once: the descriptor is closed when a goroutine that accepts from it has awoken
	})
	for _, fd := range list {
		f := os.NewFile(uintptr(fd), "")
		if c, err := net.FileConn(f); err == nil {
			queued = append(queued, c)
		}
		_ = f.Close() // the connection has a descriptor of its own
	}
	return queued
}
