package oipgrpc

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
)

// Options are the settings of Register. The zero value means the defaults.
type Options struct {
	// ResourceExhausted answers a full queue with that status, not with Unavailable as Triton does.
	ResourceExhausted bool
	// MessageTimeout is how long the message of a call may take to arrive, from when the call begins, or a stream's message does, and for each MiB
	// of it a second more; and a quarter of how long a connection may take to open. 0 means 30 seconds. Streams stay open.
	MessageTimeout time.Duration
}

// streamWorkers is how many goroutines are kept for calls, since a run grows the stack of a new one several times, which costs more
// than a small model's run itself. Calls beyond them have goroutines of their own.
const streamWorkers = 32

// TransportOptions returns what any grpc.Server wants for tensors: windows in which those of megabytes fit, few writes, and goroutines
// whose stacks have grown.
func TransportOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.NumStreamWorkers(streamWorkers), grpc.WriteBufferSize(writeBuffer), grpc.ReadBufferSize(readBuffer), grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow), grpc.MaxSendMsgSize(1<<31 - 1),
	}
}

// ServerOptions returns what a grpc.Server needs to serve s: TransportOptions, the codec, limits of messages, of streams and of answers that
// are not read, and limits on clients that hold connections open for nothing. A server with credentials of its own gives them to Credentials;
// its listener can do without, and have TLS.
func ServerOptions(s *serve.Server, o Options) []grpc.ServerOption {
	return append(TransportOptions(), grpc.Creds(Credentials(s, insecure.NewCredentials())),
		grpc.ForceServerCodecV2(ours), experimental.BufferPool(&buffers),
		grpc.MaxRecvMsgSize(int(s.MaxRequestBytes())), grpc.MaxConcurrentStreams(1024), grpc.ConnectionTimeout(4*o.messageTimeout()),
		grpc.MaxHeaderListSize(64<<10),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
}

// service is what calls are made on.
type service struct {
	s *serve.Server
	o Options
	r *receiver
}

// Register adds the service and grpc.health.v1 to a server that was made with ServerOptions.
func Register(r grpc.ServiceRegistrar, s *serve.Server, o Options) {
	x := &service{s, o, &receiver{s, &arrivals{within: o.messageTimeout()}}}
	d := grpc.ServiceDesc{ServiceName: "inference.GRPCInferenceService", HandlerType: (*any)(nil), Metadata: "open_inference_grpc.proto"}
	for name, f := range map[string]func(context.Context, *small) (wire, error){
		"ServerLive": x.live, "ServerReady": x.ready, "ModelReady": x.modelReady, "ServerMetadata": x.metadata, "ModelMetadata": x.modelMetadata,
		"ModelConfig": x.config, "ModelStatistics": x.statistics, "RepositoryIndex": x.index, "RepositoryModelUnload": x.unload,
	} {
		d.Methods = append(d.Methods, unary(x, name, func() *small { return &small{} }, f, func(*small) {}))
	}
	d.Methods = append(d.Methods, unary(x, "RepositoryModelLoad", func() *large { return &large{} }, x.load, func(*large) {}))
	d.Methods = append(d.Methods, unary(x, "ModelInfer", func() *call { return calls.Get().(*call) }, x.infer, (*call).free))
	d.Streams = []grpc.StreamDesc{{StreamName: "ModelStreamInfer", ServerStreams: true, ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error { return x.stream(stream) }}}
	r.RegisterService(&d, x)
	states := healthpb.Health_ServiceDesc
	states.Streams = nil // Watch, which health does not implement: a stream would stay open until it has a message
	states.Methods = slices.Clone(states.Methods)
	for i, m := range states.Methods {
		states.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, func(in any) error {
				_, err := x.r.receive(ctx, in, false, decode)
				return x.failed(err)
			}, through)
		}
	}
	r.RegisterService(&states, &health{s: s})
}

// unary describes a call with one message each way. What has been read is free behind f, unless interceptors have seen it.
func unary[In, Out any](x *service, name string, fresh func() In, f func(context.Context, In) (Out, error), free func(In)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (_ any, err error) {
		defer caught(&err)
		in := fresh()
		a, err := x.r.receive(ctx, in, false, decode)
		if err != nil {
			free(in)
			return nil, x.failed(err)
		}
		defer release(a)
		if through == nil {
			out, err := answered(ctx, x, f, in)
			free(in)
			return out, err
		}
		return through(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/inference.GRPCInferenceService/" + name}, func(ctx context.Context, in any) (any, error) {
			return answered(ctx, x, f, in.(In))
		})
	}}
}

// answered calls f, and returns an error of it as a status.
func answered[In, Out any](ctx context.Context, x *service, f func(context.Context, In) (Out, error), in In) (any, error) {
	out, err := f(ctx, in)
	if err != nil {
		return nil, x.status(err)
	}
	return out, nil
}

// failed is status of an error of receive, which may be one already. Where a message is no protobuf it is Internal, as with grpc-go.
func (x *service) failed(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, errWire) {
		return status.Error(codes.Internal, err.Error())
	}
	return x.status(err)
}

// caught turns a panic into an error: grpc-go would let it end the process.
func caught(err *error) {
	if p := recover(); p != nil {
		debug.PrintStack()
		*err = status.Errorf(codes.Internal, "the call has panicked: %v", p)
	}
}

// statuses are Triton's, which clients were written against.
var statuses = map[oip.Code]codes.Code{
	oip.NotFound: codes.NotFound, oip.Unavailable: codes.Unavailable, oip.Overloaded: codes.Unavailable, oip.Unsupported: codes.Unimplemented,
	oip.Internal: codes.Internal, oip.InvalidArgument: codes.InvalidArgument, oip.AlreadyExists: codes.AlreadyExists,
	oip.Cancelled: codes.Canceled, oip.Unknown: codes.Unknown, oip.TooLarge: codes.ResourceExhausted, oip.Exhausted: codes.ResourceExhausted,
}

// status returns an error as a status.
func (x *service) status(err error) error {
	if errors.Is(err, errWire) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	e := oip.AsError(err)
	code := statuses[e.Code]
	if e.Code == oip.Overloaded && x.o.ResourceExhausted {
		code = codes.ResourceExhausted
	}
	return status.Error(code, e.Message)
}

func (x *service) live(context.Context, *small) (wire, error) { return boolean(true), nil }

func (x *service) ready(context.Context, *small) (wire, error) { return boolean(x.s.Ready()), nil }

// names reads name and version, fields 1 and 2.
func names(m *small) (first, second string, err error) {
	err = fields(m.b, func(number protowire.Number, v value) error {
		switch number {
		case 1:
			first = string(v.b)
		case 2:
			second = string(v.b)
		}
		return nil
	})
	return first, second, err
}

func (x *service) modelReady(_ context.Context, m *small) (wire, error) {
	name, version, err := names(m)
	if err != nil {
		return nil, err
	}
	ready, err := x.s.ModelReady(name, version)
	return boolean(ready), err
}

func (x *service) metadata(context.Context, *small) (wire, error) {
	m := x.s.Metadata()
	b := appendText(appendText(nil, 1, m.Name), 2, m.Version)
	for _, e := range m.Extensions {
		b = appendText(b, 3, e)
	}
	return b, nil
}

func (x *service) modelMetadata(_ context.Context, m *small) (wire, error) {
	name, version, err := names(m)
	if err != nil {
		return nil, err
	}
	meta, err := x.s.ModelMetadata(name, version)
	if err != nil {
		return nil, err
	}
	return encodeMetadata(meta), nil
}

func (x *service) config(_ context.Context, m *small) (wire, error) {
	name, version, err := names(m)
	if err != nil {
		return nil, err
	}
	c, err := x.s.Config(name, version)
	if err != nil {
		return nil, err
	}
	b, err := c.Wire()
	return appendMessage(nil, 1, b), err
}

func (x *service) statistics(_ context.Context, m *small) (wire, error) {
	name, version, err := names(m)
	if err != nil {
		return nil, err
	}
	list, err := x.s.Statistics(name, version)
	if err != nil {
		return nil, err
	}
	return encodeStatistics(list), nil
}

func (x *service) index(_ context.Context, m *small) (wire, error) {
	ready := false
	err := fields(m.b, func(number protowire.Number, v value) error {
		ready = ready || number == 2 && v.u != 0
		return nil
	})
	return encodeIndex(x.s.Index(ready)), err
}

// change reads a request to load or unload. Triton's has the model's name in field 2, KServe's in field 1.
func change(b []byte) (name string, kserve bool, u repository.Upload, err error) {
	u.Files = map[string][]byte{}
	first, second := "", ""
	err = fields(b, func(number protowire.Number, v value) error {
		switch number {
		case 1:
			first = string(v.b)
		case 2:
			second = string(v.b)
		case 3:
			key, x, err := parameter(v.b)
			if err != nil {
				return err
			}
			if file, ok := strings.CutPrefix(key, "file:"); ok {
				if len(u.Files) == repository.MaxFiles {
					return oip.Errorf(oip.InvalidArgument, "the request has more than %d files", repository.MaxFiles)
				}
				data, ok := x.([]byte)
				if !ok {
					return oip.Errorf(oip.InvalidArgument, "parameter %.200q has to be bytes", key)
				}
				u.Files[file] = data
			} else if text, ok := x.(string); ok && key == "config" {
				u.Config = []byte(text)
			}
		}
		return nil
	})
	if second == "" {
		return first, true, u, err
	}
	return second, false, u, err
}

// changed answers a load or unload: in KServe's form with name and success, in Triton's with nothing.
func changed(name string, kserve bool) wire {
	if !kserve {
		return nil
	}
	return appendNumber(appendText(nil, 1, name), 2, 1)
}

func (x *service) load(ctx context.Context, m *large) (wire, error) {
	name, kserve, u, err := change(m.b)
	if err == nil {
		err = x.s.Load(ctx, name, u)
	}
	return changed(name, kserve), err
}

func (x *service) unload(_ context.Context, m *small) (wire, error) {
	name, kserve, _, err := change(m.b)
	if err == nil {
		err = x.s.Unload(name)
	}
	return changed(name, kserve), err
}

func (x *service) infer(ctx context.Context, c *call) (*parts, error) {
	list, err := x.answer(ctx, c)
	return &parts{list}, err
}

// answer runs a call.
func (x *service) answer(ctx context.Context, c *call) (mem.BufferSlice, error) {
	defer c.Recycle()
	if err := c.tensors(x.s.MaxRequestBytes(), c.a); err != nil {
		return nil, err
	}
	if err := unreadOf(ctx).Full(); err != nil {
		return nil, err
	}
	r, err := x.s.Infer(ctx, &c.Request)
	if err != nil {
		return nil, err
	}
	list, err := encode(r)
	if err != nil {
		return nil, err
	}
	return held(ctx, list)
}

// final is the parameter of an answer that says that none follows.
var final = mem.SliceBuffer(appendMessage(nil, 4, appendMessage(appendText(nil, 1, "triton_final_response"), 2, appendNumber(nil, 1, 1))))

// stream answers calls one after the other, each with error_message 1 or infer_response 2, as Triton does.
func (x *service) stream(stream grpc.ServerStream) (err error) {
	defer caught(&err)
	_ = grpc.SetSendCompressor(stream.Context(), "identity") // see held
	for {
		c := calls.Get().(*call)
		a, err := x.r.receive(stream.Context(), c, true, stream.RecvMsg)
		var refused *oip.Error
		if err == nil || errors.As(err, &refused) {
			err = x.respond(stream, c, err)
			release(a)
		}
		c.free()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return x.failed(err)
		}
	}
}

// respond answers a call of a stream; err is why it was refused, nil where it was not.
func (x *service) respond(stream grpc.ServerStream, c *call, err error) error {
	var list mem.BufferSlice
	if err == nil {
		list, err = x.answer(stream.Context(), c)
	}
	var head []byte
	if err != nil {
		if ctx := stream.Context(); ctx.Err() != nil {
			return status.FromContextError(ctx.Err()).Err()
		}
		head = appendText(nil, 1, oip.AsError(err).Message)
		head = appendMessage(head, 2, appendText(nil, 3, c.ID)) // clients look for the id there
		list = nil
	} else {
		if c.Final {
			list = append(list, final)
		}
		head = protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.BytesType), uint64(list.Len()))
	}
	return stream.SendMsg(&parts{append(mem.BufferSlice{mem.SliceBuffer(head)}, list...)})
}

// health is grpc.health.v1, as Kubernetes asks for it.
type health struct {
	healthpb.UnimplementedHealthServer
	s *serve.Server
}

// Check implements grpc_health_v1.HealthServer.
func (h *health) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	switch r.GetService() {
	case "", "inference.GRPCInferenceService":
	default:
		return nil, status.Errorf(codes.NotFound, "no service %.200q", r.GetService())
	}
	now := healthpb.HealthCheckResponse_NOT_SERVING
	if h.s.Ready() {
		now = healthpb.HealthCheckResponse_SERVING
	}
	return &healthpb.HealthCheckResponse{Status: now}, nil
}
