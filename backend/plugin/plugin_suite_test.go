package plugin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/internal/dl"
)

// folders are where libraries were built.
var folders []string

func TestMain(m *testing.M) {
	plugin.HostMain() // specs run plugins in processes of this program
	code := m.Run()
	for _, dir := range folders {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute) // of a machine that does other things
	RunSpecs(t, "backend/plugin")
}

// built are the libraries, by source and flags: each is compiled once.
var built sync.Map

// build compiles a plugin's source, and skips where there is no compiler.
func build(t testing.TB, source string, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil || !dl.Supported {
		t.Skip("a plugin cannot be built here")
	}
	key := source + strings.Join(flags, " ")
	if path, ok := built.Load(key); ok {
		return path.(string)
	}
	dir, err := os.MkdirTemp("", "carve-plugin-") // libraries stay open until the process ends
	if err != nil {
		t.Fatal(err)
	}
	folders = append(folders, dir)
	out := filepath.Join(dir, filepath.Base(source)+".so")
	args := append([]string{"-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", ".", "-o", out, source}, flags...)
	if text, err := exec.Command(gcc, append(args, "-lm", "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	built.Store(key, out)
	return out
}

// comply runs the suite on a processor of a library.
func comply(t *testing.T, open func(path string) (*plugin.Library, error), path, processor string, options map[string]string) {
	t.Helper()
	l, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, func() backend.Backend {
		b, err := l.Open(processor, options)
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// outside opens a library in a process of its own.
func outside(path string) (*plugin.Library, error) { return plugin.OpenOutOfProcess(path, nil) }

// TestAccelerators runs the suite on the example, and on one with all that it leaves out.
func TestAccelerators(t *testing.T) {
	for _, source := range []string{"../../examples/plugin/accelerator.c", "testdata/full.c"} {
		t.Run(filepath.Base(source), func(t *testing.T) { comply(t, plugin.Open, build(t, source), "tiny-npu", nil) })
	}
}

// outOfProcess skips where plugins have no processes of their own.
func outOfProcess(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes of their own need Linux")
	}
}

func TestAcceleratorOutOfProcess(t *testing.T) {
	outOfProcess(t)
	comply(t, outside, build(t, "../../examples/plugin/accelerator.c"), "tiny-npu", nil)
}
