package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// modelName is what every server calls the model.
const modelName = "model"

// server is one of those that are compared.
type server struct {
	name       string
	command    func() *exec.Cmd
	http, grpc string // addresses
	pool       *http.Client
	conn       *grpc.ClientConn
	cmd        *exec.Cmd
	log        *bytes.Buffer
	over       chan error // of the process
	starts     []time.Duration
}

// versions are what the environments have.
var versions = map[string][]string{
	"mlserver": {"mlserver==1.7.1", "onnxruntime"}, "kserve": {"kserve==0.21.0", "onnxruntime"},
}

// python returns the interpreter of an environment, which is made where it is not there.
func python(ctx context.Context, venv, name string) (string, error) {
	at := filepath.Join(venv, name)
	bin := filepath.Join(at, "bin", "python")
	if exec.CommandContext(ctx, bin, "-c", "import onnxruntime, "+name).Run() == nil {
		return bin, nil
	}
	for _, c := range [][]string{{"python3", "-m", "venv", at}, append([]string{bin, "-m", "pip", "install", "-q"}, versions[name]...)} {
		if out, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w: %s", c, err, out)
		}
	}
	return bin, nil
}

// prepare returns the servers of a model's file, none of them started. What they need is put into dir.
func prepare(ctx context.Context, dir, venv, file string) ([]*server, error) {
	own := filepath.Join(dir, "server")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", own, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, out)
	}
	ml, err := python(ctx, venv, "mlserver")
	if err != nil {
		return nil, err
	}
	ks, err := python(ctx, venv, "kserve")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(7)
	if err != nil {
		return nil, err
	}
	models, folder := filepath.Join(dir, "models"), filepath.Join(dir, "mlserver")
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	implementation, err := json.Marshal(map[string]any{"name": modelName, "implementation": "mlserver_model.Model"})
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(map[string]any{
		"host": "127.0.0.1", "http_port": ports[2], "grpc_port": ports[3], "metrics_port": ports[4], "parallel_workers": 0, "debug": false, "logging_settings": nil,
	})
	if err != nil {
		return nil, err
	}
	for at, b := range map[string][]byte{
		filepath.Join(models, modelName+".onnx"): b, filepath.Join(folder, "mlserver_model.py"): mlserverModel, filepath.Join(folder, "settings.json"): settings,
		filepath.Join(folder, "model-settings.json"): implementation, filepath.Join(dir, "kserve_model.py"): kserveModel,
	} {
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(at, b, 0o600); err != nil {
			return nil, err
		}
	}
	address := func(i int) string { return "127.0.0.1:" + ports[i] }
	command := func(name string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			c := exec.CommandContext(ctx, name, args...)
			c.Env, c.Dir = append(os.Environ(), "MODEL_FILE="+file), folder
			return c
		}
	}
	return []*server{
		{name: "carve", http: address(0), grpc: address(1), command: command(own, "-models", models, "-http", address(0), "-grpc", address(1), "-metrics", "", "-threads", "1")},
		{name: "ONNX Runtime, MLServer 1.7.1", http: address(2), grpc: address(3), command: command(filepath.Join(filepath.Dir(ml), "mlserver"), "start", folder)},
		{name: "ONNX Runtime, KServe 0.21.0", http: address(5), grpc: address(6), command: command(ks, filepath.Join(dir, "kserve_model.py"), "--http_port", ports[5], "--grpc_port", ports[6], "--model_name", modelName)},
	}, nil
}

// freePorts returns ports that nobody listens on.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}

// start starts the server, and waits for its first answer over HTTP and over gRPC.
func (s *server) start(ctx context.Context, q *question) error {
	begin := time.Now()
	s.cmd, s.log = s.command(), &bytes.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.over = make(chan error, 1)
	go func(cmd *exec.Cmd, over chan<- error) { over <- cmd.Wait() }(s.cmd, s.over)
	s.pool = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	var err error
	if s.conn, err = grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true))); err != nil {
		return err
	}
	for {
		if err = overHTTP(s, q); err == nil {
			break
		}
		select {
		case failed := <-s.over:
			s.over <- failed
			return fmt.Errorf("the server has ended: %w\n%s", cmp.Or(failed, io.EOF), s.log)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Since(begin) > 3*time.Minute || ctx.Err() != nil {
			return fmt.Errorf("no answer: %w", err)
		}
	}
	s.starts = append(s.starts, time.Since(begin))
	return overGRPC(s, q)
}

func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.conn.Close()
	s.pool.CloseIdleConnections()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	patience := time.AfterFunc(10*time.Second, func() { _ = s.cmd.Process.Kill() })
	<-s.over
	patience.Stop()
	s.cmd = nil
}

// resident returns the server's bytes in memory, where the system tells.
func (s *server) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return n << 10
}

// processor returns how long processors have worked for the server, in steps of 10 ms, where the system tells.
func (s *server) processor() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// overHTTP asks in JSON.
func overHTTP(s *server, q *question) error {
	_, err := answerOverHTTP(s, q)
	return err
}

func answerOverHTTP(s *server, q *question) ([]byte, error) {
	a, err := s.pool.Post("http://"+s.http+"/v2/models/"+modelName+"/infer", "application/json", bytes.NewReader(q.json))
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", a.Status, b)
	}
	return b, err
}

// overGRPC asks with raw contents.
func overGRPC(s *server, q *question) error {
	var out []byte
	err := s.conn.Invoke(context.Background(), "/inference.GRPCInferenceService/ModelInfer", &q.wire, &out, grpc.ForceCodec(bytesCodec{}))
	if err == nil && len(out) == 0 {
		err = errors.New("an empty answer")
	}
	return err
}

// bytesCodec leaves messages as they are.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (bytesCodec) Name() string                       { return "proto" }
