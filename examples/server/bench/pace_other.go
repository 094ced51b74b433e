//go:build !linux

package main

import "time"

// alarm wakes a caller.
type alarm struct{}

func newAlarm() *alarm { return &alarm{} }

func (*alarm) sleep(d time.Duration) { time.Sleep(d) }

func (*alarm) close() {}
