package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes a caller on time. A process of Go that has nothing to do wakes for its own timers at whole milliseconds, and then for all that
// are due together.
type alarm struct {
	file *os.File // nil where there is no timer of the system's
	fd   int
}

func newAlarm() *alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &alarm{}
	}
	return &alarm{os.NewFile(uintptr(fd), "timer"), fd}
}

// sleep waits for so long.
func (a *alarm) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	if a.file == nil || unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil) != nil {
		time.Sleep(d)
		return
	}
	var times [8]byte
	_, _ = a.file.Read(times[:])
}

func (a *alarm) close() {
	if a.file != nil {
		_ = a.file.Close()
	}
}
