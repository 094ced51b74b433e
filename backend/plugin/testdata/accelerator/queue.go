package main

// #include "table.h"
import "C"

import (
	"context"
	"errors"
	"runtime/cgo"
	"time"

	"github.com/carve-dev/carve/graph/device"
)

// queue is a stream.
type queue struct {
	u    *unit
	q    device.Queue
	mark device.Event // of a sync whose time ran out
}

// event is an event of the host's: whose, and what it tells of.
type event struct {
	u *unit
	e device.Event
}

func (u *unit) event(e device.Event) C.uint64_t {
	u.events.Add(1)
	return handle(&event{u, e})
}

//export accStreamOpen
func accStreamOpen(b, _ C.uint64_t, out *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	u := of[*unit](b)
	u.streams.Add(1)
	*out = handle(&queue{u: u})
	return C.CARVE_OK
}

//export accStreamRecord
func accStreamRecord(s C.uint64_t, out *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	q := of[*queue](s)
	if q.u.synchronous {
		*out = 0
		return C.CARVE_OK
	}
	mark, err := q.q.Record()
	if err != nil {
		return failed(e, err)
	}
	*out = q.u.event(mark)
	return C.CARVE_OK
}

//export accStreamWait
func accStreamWait(s, ev C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	return failed(e, of[*queue](s).q.WaitFor(context.Background(), of[*event](ev).e))
}

//export accStreamSync
func accStreamSync(s, ns C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	q := of[*queue](s)
	if q.u.synchronous {
		return C.CARVE_OK
	}
	if time.Duration(min(ns, 1<<60)) >= time.Minute { // the host's thread has nothing else to do
		q.mark = nil
		return failed(e, q.q.Sync(context.Background()))
	}
	if q.mark == nil {
		mark, err := q.q.Record()
		if err != nil {
			return failed(e, err)
		}
		q.mark = mark
	}
	st = waitFor(q.mark, ns, e)
	if st != C.CARVE_PENDING {
		q.mark = nil
	}
	return st
}

//export accStreamClose
func accStreamClose(s C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	q := of[*queue](s)
	cgo.Handle(s).Delete()
	q.u.streams.Add(-1)
	return failed(nil, q.q.Close())
}

//export accEventPoll
func accEventPoll(h C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	done, err := of[*event](h).e.Done()
	if !done {
		return C.CARVE_PENDING
	}
	return failed(e, err)
}

//export accEventWait
func accEventWait(h, ns C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	return waitFor(of[*event](h).e, ns, e)
}

func waitFor(e device.Event, ns C.uint64_t, out *C.carve_error) C.int32_t {
	if done, err := e.Done(); done {
		return failed(out, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(min(ns, 1<<60)))
	defer cancel()
	err := e.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return C.CARVE_PENDING
	}
	return failed(out, err)
}

//export accEventNotify
func accEventNotify(h, token C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	of[*event](h).e.Notify(func(err error) { C.host_done(C.host_table(), token, failed(nil, err)) })
	return C.CARVE_OK
}

//export accEventClose
func accEventClose(h C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	of[*event](h).u.events.Add(-1)
	cgo.Handle(h).Delete()
	return C.CARVE_OK
}
