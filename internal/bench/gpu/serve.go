package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// settings are what a process that measures is told when it begins.
type settings struct {
	Side    string  `json:"side"` // kernels, or models
	Driver  string  `json:"driver"`
	NVRTC   string  `json:"nvrtc"`
	CUBLAS  string  `json:"cublas"`
	CUDNN   string  `json:"cudnn"`
	Sizes   string  `json:"sizes"`
	Tiles   int     `json:"tiles"`
	Seconds float64 `json:"seconds"` // of device time for a measurement of a kernel, about
}

// serve answers requests until there are none. text is settings as JSON.
func serve(text string, in io.Reader) error {
	s := &settings{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return err
	}
	ctx := context.Background()
	reply := func(*request) (*answer, error) { return nil, fmt.Errorf("no side %q", s.Side) }
	switch s.Side {
	case "kernels":
		b, err := newBench(s)
		reply = func(r *request) (*answer, error) {
			if err != nil {
				return nil, err
			}
			return b.answer(r)
		}
	case "models":
		m := &models{}
		defer m.drop()
		reply = func(r *request) (*answer, error) { return m.answer(ctx, r) }
	}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		r := &request{}
		if err = errors.Join(err, json.Unmarshal(line, r)); err != nil {
			return err
		}
		a, err := reply(r)
		if err != nil {
			a = &answer{Fault: faultOf(err)}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// answer answers a request of the process that measures kernels.
func (b *bench) answer(r *request) (*answer, error) {
	switch r.Op {
	case "facts":
		f, err := b.facts()
		return &answer{Facts: f}, err
	case "memory":
		free, _, err := b.memory()
		return &answer{Bytes: free}, err
	}
	list, err := b.tasks()
	if err != nil {
		return nil, err
	}
	a := &answer{}
	for i := range list {
		switch {
		case r.Op == "tasks":
			a.Tasks = append(a.Tasks, list[i].taskName)
		case r.Op == "run" && r.Task == list[i].String():
			t, err := list[i].run(b)
			return &answer{Times: t}, err
		}
	}
	if r.Op != "tasks" {
		return nil, fmt.Errorf("no request %s of %q", r.Op, r.Task)
	}
	return a, nil
}

// tasks are all measurements of kernels.
func (b *bench) tasks() ([]task, error) {
	s, ok := sizesOf(b.settings.Sizes)
	if !ok {
		return nil, fmt.Errorf("no sizes %q, expected full or small", b.settings.Sizes)
	}
	list := append(b.ceilingTasks(s), b.productTasks(s, b.settings.Tiles)...)
	list = append(list, b.rowTasks(s)...)
	list = append(list, b.convolutionTasks(s)...)
	return append(list, b.attentionTasks(s)...), nil
}
