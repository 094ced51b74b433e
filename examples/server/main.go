// Command server serves models on the Open Inference Protocol, version 2, over REST and gRPC, as Triton, KServe and their clients
// speak it.
//
//	go run -C examples/server . --models "$PWD/examples/quickstart"
//	curl localhost:8000/v2/models/digits
//
// See README.md for the repository's layout, and -help for the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/metrics"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/examples/server/tracing"
)

func main() {
	hostPlugin()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stderr, nil); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "server:", err)
		}
		os.Exit(1)
	}
}

// settings are the command's flags.
type settings struct {
	models   string
	control  string
	poll     time.Duration
	backends string
	plugins  string
	logs     string
	tracing  string
	linger   time.Duration
	timeout  time.Duration
	triton   bool
	load     repository.Options
	serve    serve.Options
	listen   listen.Options
}

// parse reads the flags.
func parse(args []string, out io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.models, "models", "", "`folder` of models: <name>/<integer>/model.onnx as in Triton's repositories, or <name>.onnx")
	f.StringVar(&s.load.Single, "model-name", "", "`name` of the one model whose files the folder has")
	f.StringVar(&s.control, "model-control", "none", "none: load all at the start; poll: follow the folder; explicit: clients load and unload")
	f.DurationVar(&s.poll, "poll", 5*time.Second, "how often to look at the folder with -model-control poll")
	f.StringVar(&s.backends, "backends", "", "backends in order of priority, by comma: cpu, mkl, opencl, cuda, …")
	f.StringVar(&s.plugins, "plugins", "", "vendors' libraries or folders of them, by comma")
	f.IntVar(&s.load.Compile.Threads, "threads", 0, "most threads of one run; 0 for all processors")
	f.IntVar(&s.load.Compile.MaxSessions, "sessions", 0, "most runs of a model at a time; 0 for as many as there are processors")
	f.Int64Var(&s.load.MemoryLimit, "memory-limit", 0, "most `bytes` that compiled models hold; those used least recently are unloaded for others; 0 for no limit")
	f.IntVar(&s.load.Batch, "batch", 0, "join requests of models without a configuration into runs of so many `rows` at most; 0 for none")
	f.IntVar(&s.load.Queue, "queue", 512, "most requests of a model that wait")
	f.IntVar(&s.serve.MaxRequests, "max-requests", 4096, "most requests under way, waiting or not")
	f.Int64Var(&s.serve.MaxRequestBytes, "max-request-bytes", 64<<20, "most `bytes` of one request, decompressed")
	f.Int64Var(&s.serve.MaxBytes, "max-bytes", 1<<30, "most `bytes` of all requests under way")
	f.StringVar(&s.listen.HTTP, "http", ":8000", "`address` of REST, and of gRPC over HTTP/2; empty for none")
	f.StringVar(&s.listen.GRPC, "grpc", ":8001", "`address` of gRPC alone; empty for none")
	f.BoolVar(&s.listen.Mixed, "mixed", false, "gRPC libraries' connections to -http may have REST's requests too, from a proxy that says of itself neither Forwarded, Via, X-Forwarded-* nor the like")
	f.StringVar(&s.listen.Metrics, "metrics", ":8002", "`address` of Prometheus metrics; empty for none")
	f.StringVar(&s.listen.Pprof, "pprof", "", "`address` of profiles, such as localhost:6060; empty for none")
	f.StringVar(&s.listen.Cert, "tls-cert", "", "`file` with a certificate in PEM")
	f.StringVar(&s.listen.Key, "tls-key", "", "`file` with its key")
	f.BoolVar(&s.listen.TooManyRequests, "too-many-requests", false, "answer a full queue with 429 and ResourceExhausted, not with 503 and Unavailable as Triton does")
	f.DurationVar(&s.listen.BodyTimeout, "body-timeout", 30*time.Second, "how long a body may take to arrive, and a second more for each MiB")
	f.DurationVar(&s.linger, "linger", 0, "how long to go on answering, not ready, after SIGTERM, until balancers have seen it")
	f.DurationVar(&s.timeout, "drain", 30*time.Second, "how long to wait for requests under way after that")
	f.BoolVar(&s.triton, "triton-metrics", true, "metrics by Triton's names too")
	f.StringVar(&s.tracing, "otlp", "", "`endpoint` of an OpenTelemetry collector over gRPC, such as localhost:4317; empty for none")
	f.StringVar(&s.logs, "log", "text", "form of the log: text or json")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if s.models == "" {
		return nil, errors.New("-models is needed: the folder of the models")
	}
	switch s.control {
	case "none", "poll", "explicit":
	default:
		return nil, fmt.Errorf("-model-control is %q, which is none of none, poll, explicit", s.control)
	}
	for _, name := range split(s.backends) {
		s.load.Compile.Backends = append(s.load.Compile.Backends, backend.Config{Name: name})
	}
	s.load.Compile.Plugins = split(s.plugins)
	s.load.Explicit, s.serve.Explicit = s.control == "explicit", s.control == "explicit"
	return s, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// unsampled has Go take no samples of allocations, where nobody asks for them: they take a hundredth of a small request's time.
var unsampled = sync.OnceFunc(func() { runtime.MemProfileRate = 0 })

// run serves until ctx ends. It tells ready, where that is not nil, of the open ports.
func run(ctx context.Context, args []string, out io.Writer, ready func(*listen.Listeners)) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	if s.logs == "json" {
		log = slog.New(slog.NewJSONHandler(out, nil))
	}
	s.load.Logger, s.serve.Logger, s.listen.Log = log, log, log
	traces, err := tracing.Start(ctx, s.tracing)
	if err != nil {
		return err
	}
	defer traces.Close()
	if s.listen.Pprof == "" {
		unsampled()
	}
	begin := time.Now()
	processors := listen.PrepareProcess()
	s.load.Runs, s.load.Crowded = processors.Runs, processors.Crowded
	models, err := repository.OpenDir(ctx, s.models, s.load)
	if err != nil {
		return err
	}
	defer models.Close(context.Background())
	measured := metrics.New(models, metrics.Options{Triton: s.triton})
	s.serve.Observer = serve.Observers{measured, traces}
	server := serve.New(models, s.serve)
	s.listen.MetricsHandler = measured.Handler()
	s.listen.Wrap, s.listen.Interceptors = traces.Wrap, traces.ServerOptions()
	l, err := listen.Start(server, s.listen)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "ready", "carve", version(), "models", len(models.Index()), "http", address(l, "http"), "grpc", address(l, "grpc"), "metrics", address(l, "metrics"), "seconds", time.Since(begin).Seconds())
	if ready != nil {
		ready(l)
	}
	follow, stop := context.WithCancel(ctx)
	defer stop()
	if s.control == "poll" {
		go models.PollEvery(follow, max(s.poll, 100*time.Millisecond))
	}
	go models.TidyEvery(follow, 10*time.Second)
	<-ctx.Done()
	log.Info("shutting down", "linger", s.linger, "drain", s.timeout)
	over, cancel := context.WithTimeout(context.Background(), s.linger+s.timeout)
	defer cancel()
	if err := l.Shutdown(over, s.linger); err != nil {
		return fmt.Errorf("requests were cut off: %w", err)
	}
	return models.Close(over)
}

func address(l *listen.Listeners, name string) string {
	if a := l.Addr(name); a != nil {
		return a.String()
	}
	return ""
}

// version names the module's own version.
func version() string { return serve.Version() }
