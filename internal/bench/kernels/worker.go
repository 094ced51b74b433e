package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed rival_worker.py
var rivalWorker []byte

// rivals are the names of what a worker runs models in, by those of the flag.
var rivals = map[string]string{"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}

// worker is a process that runs models in a rival.
type worker struct {
	name string // and version
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

func startWorker(python, dir, rival string, processor bool) (*worker, error) {
	if rivals[rival] == "" {
		return nil, fmt.Errorf("there is no rival %q", rival)
	}
	script := filepath.Join(dir, "rival_worker.py")
	if err := os.WriteFile(script, rivalWorker, 0o600); err != nil {
		return nil, err
	}
	w := &worker{name: rivals[rival], cmd: exec.Command(python, script, rival, strconv.FormatBool(processor))}
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewScanner(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	version, err := w.answer()
	w.name += " " + version
	return w, err
}

// answer returns the next line that the process writes.
func (w *worker) answer() (string, error) {
	if !w.out.Scan() {
		return "", fmt.Errorf("%s's process ended: %w", w.name, io.ErrUnexpectedEOF)
	}
	return strings.TrimSpace(w.out.Text()), nil
}

func (w *worker) load(path string) error {
	if _, err := fmt.Fprintln(w.in, "load", path); err != nil {
		return err
	}
	_, err := w.answer()
	return err
}

func (w *worker) run(n int) (time.Duration, error) {
	if _, err := fmt.Fprintln(w.in, "run", n); err != nil {
		return 0, err
	}
	text, err := w.answer()
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(ns), err
}

func (w *worker) close() {
	_ = w.in.Close()
	_ = w.cmd.Wait()
}
