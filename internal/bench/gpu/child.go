package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// child is a process that measures. It is started when it is first asked for something, and again after it has ended.
type child struct {
	name    string
	command func() *exec.Cmd
	now     *living
}

// living is one life of a child.
type living struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	err *tail
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4000
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(b), nil
}

// String returns the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

// ask sends a request, and returns the answer. What goes wrong is a *fault: what the process says, or what became of it. One that does not
// answer in time is ended, and one whose device is lost.
func (c *child) ask(ctx context.Context, within time.Duration, r *request) (*answer, error) {
	if ctx.Err() != nil {
		return nil, &fault{left, "time is up"}
	}
	if err := c.begin(); err != nil {
		return nil, &fault{absent, err.Error()}
	}
	l := c.now
	patience, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a := &answer{}
	done := make(chan error, 1)
	go func() { done <- errors.Join(json.NewEncoder(l.in).Encode(r), l.out.Decode(a)) }()
	select {
	case err := <-done:
		if err != nil {
			c.stop()
			return nil, &fault{died, fmt.Sprintf("%s: %v: %v", c.name, err, l.err)}
		}
	case <-patience.Done():
		c.stop()
		<-done
		if ctx.Err() != nil {
			return nil, &fault{left, "time is up"}
		}
		return nil, &fault{timeout, fmt.Sprintf("%s did not answer within %v: %v", c.name, within.Round(time.Second), l.err)}
	}
	if a.Fault != nil {
		if a.Fault.Kind == lost {
			c.stop()
		}
		return nil, a.Fault
	}
	return a, nil
}

// begin starts the process unless it is there.
func (c *child) begin() error {
	if c.now != nil {
		return nil
	}
	l := &living{cmd: c.command(), err: &tail{}}
	l.cmd.Stderr = l.err
	l.cmd.WaitDelay = time.Second // processes of its own may hold what it wrote to
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := l.cmd.Start(); err != nil {
		return err
	}
	l.out = json.NewDecoder(out)
	c.now = l
	return nil
}

// stop ends the process.
func (c *child) stop() {
	if c.now == nil {
		return
	}
	_ = c.now.in.Close()
	_ = c.now.cmd.Process.Kill() // it may have ended
	_ = c.now.cmd.Wait()         // what went wrong has been said
	c.now = nil
}

// quit lets the process end by itself, as it does where nobody asks any more, and ends it where it does not.
func (c *child) quit() {
	if c.now == nil {
		return
	}
	l := c.now
	c.now = nil
	_ = l.in.Close()
	ended := make(chan struct{})
	go func() {
		_ = l.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = l.cmd.Process.Kill()
		<-ended
	}
}
