package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/rest"
)

// overload asks a server of its own for 150 % of what it can do.
func overload(ctx context.Context, out io.Writer, set *settings) error {
	server, err := startChild(ctx, set)
	if err != nil {
		return err
	}
	defer server.end()
	conn, err := connect(server.at.GRPC)
	if err != nil {
		return err
	}
	defer conn.Close()
	pool := &http.Transport{MaxIdleConnsPerHost: maxOpen, DisableCompression: true}
	defer pool.CloseIdleConnections()
	h := &rest.Client{Base: "http://" + server.at.HTTP, HTTP: &http.Client{Transport: pool}}
	l := &load{asks: []func(context.Context, *oip.Request) (*oip.Response, error){h.Infer, oipgrpc.NewClient(conn).Infer}, alone: newEcho(server.at.Echo, 4*width, 16)}
	defer closeAll(l.alone.conns)
	if _, _, _, err := many(l.ask, set.length, set.callers); err != nil { // warms up
		return err
	}
	_, limit, _, err := many(l.ask, 2*set.length, set.callers)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "limit: %.0f requests a second of %d callers, by HTTP and gRPC, half of them batched\n\n", limit, set.callers)
	if err := l.run(ctx, out, server, 1.5*limit, set.overload); err != nil {
		return err
	}
	l.conclude(out)
	for _, v := range l.verdicts(set.overload) {
		fmt.Fprintln(out, v)
	}
	if l.last != nil {
		fmt.Fprintln(out, "the last that was lost:", l.last)
	}
	return nil
}

// child is a server in a process of its own.
type child struct {
	process *exec.Cmd
	ask     io.WriteCloser
	hear    *json.Decoder
	at      ports
}

// startChild starts one, with more flags.
func startChild(ctx context.Context, set *settings, more ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{process: exec.CommandContext(ctx, self, append([]string{"--serve", "--threads", strconv.Itoa(set.threads), "--profile", set.profile}, more...)...)}
	c.process.Stderr = os.Stderr
	if c.ask, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	said, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	c.hear = json.NewDecoder(said)
	if err := c.hear.Decode(&c.at); err != nil {
		c.end()
		return nil, fmt.Errorf("the server has not started: %w", err)
	}
	return c, nil
}

func (c *child) end() { _, _ = c.ask.Close(), c.process.Wait() }

// report asks the server what it has done since the last time.
func (c *child) report() (r report, err error) {
	if _, err = io.WriteString(c.ask, "\n"); err == nil {
		err = c.hear.Decode(&r)
	}
	if err != nil {
		return r, fmt.Errorf("the server does not say how it is: %w", err)
	}
	return r, nil
}

// resident returns the resident memory of the server in bytes, 0 where the system does not say so in /proc.
func (c *child) resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.process.Process.Pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// files returns how many files the server has open, most of them connections, 0 where the system does not say so in /proc.
func (c *child) files() int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.process.Process.Pid)) // there are none elsewhere
	return len(list)
}

// maxOpen bounds the requests under way: this side's memory and connections.
const maxOpen = 4096

// besides is how many requests there are for each bare round trip, which is sent with one of them: at the same moments, since both take
// longer where many are sent at once.
const besides = 8

// run asks for so long, first at a rate and then for half as much again as is answered, and says every now and then how it goes.
func (l *load) run(ctx context.Context, out io.Writer, server *child, rate float64, length time.Duration) error {
	l.now, l.whole = period{}, period{}
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	told := make(chan error, 1)
	group.Go(func() { told <- l.follow(ctx, out, server, length) })
	var open atomic.Int64
	before, every := 0, 2*time.Second
	offer := func() float64 { // the machine has other things to do, more or less: what can be done is what is
		answered := l.right()
		if answered > before {
			rate = max(1.5*float64(answered-before)/every.Seconds(), 1)
		}
		before = answered
		return rate
	}
	steps(offer, every, length, func(i int, late time.Duration) {
		if open.Load() >= maxOpen {
			l.unsent++
			return
		}
		open.Add(1)
		due := time.Now().Add(-late)
		group.Go(func() {
			defer open.Add(-1)
			l.behind(time.Since(due))
			_ = l.ask() // counts its errors itself
		})
		if i%besides == 0 {
			group.Go(l.askAlone)
		}
	})
	group.Wait()
	return <-told
}

// steps calls f at a rate, in calls a second, that is asked for anew every so often, with a number and how late it is. What is late, since
// timers are, is made up for at once.
func steps(rate func() float64, every, length time.Duration, f func(i int, late time.Duration)) {
	n := 0
	for until := time.Now().Add(length); time.Now().Before(until); {
		begin, now := time.Now(), rate()
		for done := 0; ; {
			gone := time.Since(begin)
			if gone >= every {
				break
			}
			for ; done < int(gone.Seconds()*now); done++ {
				f(n, gone-time.Duration(float64(done+1)/now*1e9))
				n++
			}
			time.Sleep(min(time.Duration(float64(done+1)/now*1e9), every) - time.Since(begin))
		}
	}
}

// follow looks at the server's memory every so often, and says once a minute, or more often in a short run, how it goes. It returns when ctx
// ends, and everything has been told.
func (l *load) follow(ctx context.Context, out io.Writer, server *child, length time.Duration) error {
	fmt.Fprintf(out, "%7s %9s %9s %9s  %-38s %-23s %-32s\n%7s %9s %9s %9s  %8s %8s %10s %8s  %8s %6s %6s  %8s %9s %7s %7s %6s\n", "", "", "", "", "refused, as clients see it", "bare round trips", "server's memory",
		"", "sent", "answered", "refused", "≤ 5 ms", "p99", "longest", "own", "≤ 5 ms", "p99", "late", "now", "most", "heap", "stacks", "files")
	begin, line := time.Now(), min(length/20, time.Minute)
	look := time.NewTicker(min(line, time.Second))
	defer look.Stop()
	most, next := int64(0), line
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-look.C:
		}
		gone, bytes := time.Since(begin), server.resident()
		l.memory = append(l.memory, sample{gone, bytes})
		if most = max(most, bytes); gone < next && !over {
			continue
		}
		r, err := server.report()
		if err != nil {
			return err
		}
		l.tell(out, gone, r, bytes, most, server.files())
		most, next = 0, next+line
	}
	return nil
}
