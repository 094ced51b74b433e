package mxnettest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

var (
	//go:embed cases.py
	casesScript string
	//go:embed models.py
	modelsScript string
	//go:embed worker.py
	workerScript string
)

// Python is the path of an interpreter that has MXNet 1.9.1.
type Python string

// run runs a script with arguments, and returns what it prints.
func (p Python) run(ctx context.Context, environ []string, input, script string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, string(p), append([]string{"-c", script}, args...)...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := stderr.String()
		return nil, fmt.Errorf("%s: %w: %s", p, err, text[max(0, len(text)-2000):])
	}
	return out, nil
}

// Check returns an error where the interpreter has no MXNet.
func (p Python) Check(ctx context.Context) error {
	_, err := p.run(ctx, nil, "", "import mxnet")
	return err
}

// Case is a model of one operator that MXNet ran.
type Case struct {
	Name string  `json:"case"`
	Op   string  `json:"op"`
	Step float64 `json:"step"` // what one step of the result's integers stands for; 0 where no integers are rounded
}

// Path returns the file of a case: what is "symbol.json", "0000.params", "inputs.npz" or "outputs.npz".
func (c Case) Path(dir, what string) string {
	return filepath.Join(dir, c.Name+"-"+what)
}

// Refusal is an attempt at a case that MXNet itself failed.
type Refusal struct {
	Op     string `json:"op"`
	Why    string `json:"why"`
	Symbol string `json:"symbol"`
}

// Cases says which cases were made.
type Cases struct {
	Version string    `json:"version"`
	Cases   []Case    `json:"cases"`
	Refused []Refusal `json:"refused"`
	Without []string  `json:"without"` // operators that MXNet has, and that got no case
	Unknown []string  `json:"unknown"` // operators that this version of MXNet does not have
}

// Cases makes cases of operators in dir. Equal seeds give equal cases.
func (p Python) Cases(ctx context.Context, dir string, seed int, operators []string) (*Cases, error) {
	script := filepath.Join(dir, "cases.py") // which starts itself
	if err := os.WriteFile(script, []byte(casesScript), 0o600); err != nil {
		return nil, err
	}
	start := "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
	if _, err := p.run(ctx, nil, strings.Join(operators, "\n"), start, script, dir, strconv.Itoa(seed)); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		return nil, err
	}
	var c Cases
	return &c, json.Unmarshal(b, &c)
}

// ModelNames returns the models that Models writes.
func (p Python) ModelNames(ctx context.Context) ([]string, error) {
	out, err := p.run(ctx, nil, "", modelsScript)
	return strings.Fields(string(out)), err
}

// Model writes a model, its inputs and outputs into dir: NAME-symbol.json, NAME-0000.params, NAME-inputs.npz and NAME-outputs.npz.
// Equal seeds give equal weights and inputs.
func (p Python) Model(ctx context.Context, dir, name string, seed int) error {
	_, err := p.run(ctx, nil, "", modelsScript, dir, strconv.Itoa(seed), name)
	return err
}

// Timing is what a process of MXNet measured on a model.
type Timing struct {
	Version  string    `json:"version"`
	CreateMS float64   `json:"create_ms"` // from loading to the first results
	RunMS    []float64 `json:"run_ms"`
}

// Measure times MXNet, with oneDNN as it is by default, on a model that Model wrote, for so many seconds, by the "wall" clock or the
// time of the "processor".
func (p Python) Measure(ctx context.Context, dir, name string, threads int, seconds float64, clock string) (*Timing, error) {
	out, err := p.run(ctx, []string{"OMP_NUM_THREADS=" + strconv.Itoa(threads)}, "", workerScript, filepath.Join(dir, name), fmt.Sprint(seconds), clock)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var t Timing
	return &t, json.Unmarshal([]byte(lines[len(lines)-1]), &t)
}
