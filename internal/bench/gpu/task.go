package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// operand is a buffer of random elements.
type operand struct {
	typ   gpukernel.Type
	count int
}

// task is a plan to measure, with its inputs and its one result.
type task struct {
	name       string
	plan       *gpukernel.Plan
	err        error // of making the plan
	inputs     map[string]operand
	result     string
	out        operand
	operations float64 // 0 where the measure is bytes
	bytes      float64 // read and written at least
	tolerance  float64
	// want returns element i of the result, in float64.
	want func(in map[string][]byte, i int) float64
}

// tasks measures each, and prints a table. The ratio is that of bytes to a copy, or of operations to multiply-adds.
func (b *bench) tasks(title string, list []task) {
	fmt.Printf("\n%-44s %10s %10s %10s %7s\n", title, "µs", "TFLOP/s", "TB/s", "ratio")
	for _, t := range list {
		if err := b.task(t); err != nil {
			fmt.Printf("%-44s %v\n", t.name, err)
		}
	}
}

func (b *bench) task(t task) error {
	if t.err != nil {
		return t.err
	}
	buffers, host := map[string]uintptr{}, map[string][]byte{}
	defer func() {
		for _, p := range buffers {
			b.free(p)
		}
	}()
	for name, o := range t.inputs {
		var err error
		if buffers[name], host[name], err = b.fill(o.typ, o.count); err != nil {
			return err
		}
	}
	bytes := int64(t.out.count) * int64(t.out.typ.Size())
	var err error
	if buffers[t.result], err = b.alloc(bytes); err != nil {
		return err
	}
	steps, err := b.steps(t.plan, buffers)
	if err != nil {
		return err
	}
	work := func() error {
		for _, s := range steps {
			if err := b.launch(s); err != nil {
				return err
			}
		}
		return nil
	}
	if err := b.checkTask(t, buffers[t.result], bytes, host, work); err != nil {
		return err
	}
	seconds, err := b.measure(work)
	if err != nil {
		return err
	}
	ratio := t.bytes / seconds / b.copyRate
	if t.operations > 0 {
		ratio = t.operations / seconds / b.fmaRate
	}
	fmt.Printf("%-44s %10.1f %10.2f %10.2f %7.2f\n", t.name, seconds*1e6, t.operations/seconds/1e12, t.bytes/seconds/1e12, ratio)
	return nil
}

// checkTask compares elements drawn at random.
func (b *bench) checkTask(t task, result uintptr, bytes int64, host map[string][]byte, work func() error) error {
	if err := b.poison(result, bytes); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	out := make([]byte, bytes)
	if err := b.download(out, result); err != nil {
		return err
	}
	var off, norm float64
	for range 200 {
		i := b.random.IntN(t.out.count)
		w := t.want(host, i)
		e := element(out, t.out.typ, i) - w
		off, norm = off+e*e, norm+w*w
	}
	if e := math.Sqrt(off / norm); !(e < t.tolerance) {
		return fmt.Errorf("result is off by %.2g", e)
	}
	for i := range t.out.count {
		if v := element(out, t.out.typ, i); v != v {
			return fmt.Errorf("element %d is not written", i)
		}
	}
	return nil
}
