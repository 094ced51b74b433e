// Package fibre compiles kernels of package gpukernel with the host's C compiler, one fibre a work item, under the address and
// undefined-behaviour sanitizers, and runs plans with them. It is for tests: of kernels where there is no graphics processor,
// and more strictly than one would (see runtime.h).
package fibre

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/testcache"
)

// ErrNoCompiler is returned where the host has no C compiler.
var ErrNoCompiler = errors.New("no C compiler (gcc)")

// Program is a running program of kernels. It is for one goroutine.
type Program struct {
	index  map[string]int // by name
	cmd    *exec.Cmd
	in     *bufio.Writer
	out    *bufio.Reader
	stderr bytes.Buffer
	Seed   uint64 // of the order of work items; advanced by each launch
	Slack  int    // bytes by which buffers begin beyond an alignment of 128, a multiple of 16
}

// The sanitizers that a program may be compiled with. Address alone compiles in half the time.
const (
	Address = "address"
	All     = "address,undefined"
)

// Start compiles the kernels in dir, which has to exist, under sanitizers, and starts the program, or one of an earlier process that was
// compiled from the same text (see testcache). Kernels need different names.
func Start(ctx context.Context, dir, sanitizers string, kernels ...*gpukernel.Kernel) (*Program, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, ErrNoCompiler
	}
	text, exe := filepath.Join(dir, "kernels.c"), filepath.Join(dir, "kernels")
	source := gpukernel.Source(gpukernel.Fibres, kernels...)
	if err := os.WriteFile(text, []byte(source), 0o600); err != nil {
		return nil, err
	}
	args := []string{"-std=gnu11", "-O0", "-g1", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-variable",
		"-Wno-unused-but-set-variable", "-Wno-maybe-uninitialized", "-Wno-unknown-pragmas", "-fsanitize=" + sanitizers,
		"-fno-sanitize-recover=all", "-fwrapv", "-ffp-contract=off"}
	if folder, err := testcache.Folder(ctx, "fibre", gcc, args...); err == nil {
		exe = filepath.Join(folder, fmt.Sprintf("%x", sha256.Sum256([]byte(source))))
	}
	if _, err := os.Stat(exe); err != nil {
		part := fmt.Sprintf("%s.%d", exe, os.Getpid())
		if msg, err := exec.CommandContext(ctx, gcc, append(args, "-o", part, text, "-lm")...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("gcc: %w\n%.4000s", err, msg)
		}
		if err := os.Rename(part, exe); err != nil {
			return nil, err
		}
	}
	testcache.Touch(exe)
	p := &Program{index: map[string]int{}, Seed: 1}
	for i, k := range kernels {
		p.index[k.Name] = i
	}
	p.cmd = exec.CommandContext(ctx, exe)
	p.cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = bufio.NewWriterSize(in, 1<<16), bufio.NewReaderSize(out, 1<<16)
	return p, p.cmd.Start()
}

// Kernels returns the kernels of plans, each once.
func Kernels(plans ...*gpukernel.Plan) []*gpukernel.Kernel {
	var list []*gpukernel.Kernel
	seen := map[*gpukernel.Kernel]bool{}
	for _, p := range plans {
		for _, l := range p.Launches {
			if !seen[l.Kernel] {
				seen[l.Kernel] = true
				list = append(list, l.Kernel)
			}
		}
	}
	return list
}

// Run runs the launches of a plan, whose kernels are known by their names, on buffers by name, and writes what the kernels wrote back to them. Scratch buffers are made
// here, full of NaNs. The error has the report of the sanitizers, or of the runtime.
func (p *Program) Run(plan *gpukernel.Plan, buffers map[string][]byte) error {
	all := map[string][]byte{}
	for name, b := range buffers {
		all[name] = b
	}
	for _, s := range plan.Scratch {
		all[s.Buffer] = bytes.Repeat([]byte{0xff}, int(s.Bytes))
	}
	for _, l := range plan.Launches {
		if err := p.launch(l, all); err != nil {
			return fmt.Errorf("%s: %w", l.Kernel.Name, err)
		}
	}
	return nil
}

func (p *Program) launch(l gpukernel.Launch, buffers map[string][]byte) error {
	index, ok := p.index[l.Kernel.Name]
	if !ok {
		return errors.New("not among the program's kernels")
	}
	if len(l.Args) != len(l.Kernel.Params) {
		return fmt.Errorf("%d arguments for %d parameters", len(l.Args), len(l.Kernel.Params))
	}
	p.Seed = p.Seed*6364136223846793005 + 1442695040888963407
	p.put(int32(index), int32(len(l.Args)), int32(l.Grid[0]), int32(l.Grid[1]), int32(l.Grid[2]), int32(l.Kernel.Threads), int32(l.Kernel.Arena), int32(0), p.Seed)
	for i, a := range l.Args {
		param := l.Kernel.Params[i]
		if len(a.Data) > 0 {
			p.put(int32(1), int32(0), int64(8*len(a.Data)), a.Data)
			continue
		}
		if param.Scalar {
			p.put(int32(1), int32(0), int64(param.Type.Size()))
			if param.Type.Size() == 8 {
				p.put(a.Value)
			} else {
				p.put(int32(a.Value))
			}
			continue
		}
		b, ok := buffers[a.Buffer]
		if !ok {
			return fmt.Errorf("no buffer %q", a.Buffer)
		}
		p.put(int32(0), int32(p.Slack), int64(len(b)))
		_, _ = p.in.Write(b) // a failure shows when the results are read
	}
	if err := p.in.Flush(); err != nil {
		return p.failure(err)
	}
	for i, a := range l.Args {
		if l.Kernel.Params[i].Scalar {
			continue
		}
		b := buffers[a.Buffer]
		if !l.Kernel.Params[i].Written {
			if _, err := p.out.Discard(len(b)); err != nil {
				return p.failure(err)
			}
			continue
		}
		if _, err := io.ReadFull(p.out, b); err != nil {
			return p.failure(err)
		}
	}
	return nil
}

func (p *Program) put(values ...any) {
	for _, v := range values {
		_ = binary.Write(p.in, binary.NativeEndian, v) // a failure shows when the results are read
	}
}

func (p *Program) failure(err error) error {
	_ = p.cmd.Wait() // its status says less than what it wrote
	return fmt.Errorf("%w\n%.6000s", err, p.stderr.String())
}

// Close ends the program.
func (p *Program) Close() error {
	p.in.Reset(io.Discard)
	if p.cmd.ProcessState != nil {
		return nil
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()
	return nil
}
