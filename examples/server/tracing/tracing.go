// Package tracing tells OpenTelemetry of requests: a span each, below the caller's where that sends W3C's traceparent, with the
// times of its parts as attributes.
package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
)

// Tracer observes a server. A nil Tracer does nothing.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider // nil where it is the caller's
	carrier  propagation.TraceContext
}

// Start returns a tracer that sends spans to a collector by OTLP over gRPC; nil for no endpoint. Close it.
func Start(ctx context.Context, endpoint string) (*Tracer, error) {
	if endpoint == "" {
		return nil, nil
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(endpoint), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", "carve-server"), attribute.String("service.version", serve.Version()))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about), sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())))
	t := New(provider)
	t.provider = provider
	return t, nil
}

// New returns a tracer of a provider of the caller's.
func New(provider trace.TracerProvider) *Tracer {
	return &Tracer{tracer: provider.Tracer("github.com/carve-dev/carve/examples/server")}
}

// Close sends what is left.
func (t *Tracer) Close() {
	if t == nil || t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // there is nobody to tell
}

// Wrap takes a caller's span from the headers of HTTP.
func (t *Tracer) Wrap(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(t.carrier.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	})
}

// ServerOptions take a caller's span from the metadata of gRPC.
func (t *Tracer) ServerOptions() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(t.extract(ctx), in)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, &stream{s, t.extract(s.Context())})
		}),
	}
}

// stream is one with another context.
type stream struct {
	grpc.ServerStream
	ctx context.Context // what interceptors of streams are
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

func (t *Tracer) extract(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	return t.carrier.Extract(ctx, carrier(md))
}

// carrier reads gRPC's metadata.
type carrier metadata.MD

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if v := metadata.MD(c).Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	var out []string
	for k := range c {
		out = append(out, k)
	}
	return out
}

// Begin implements serve.Observer.
func (t *Tracer) Begin(ctx context.Context, r *oip.Request) (context.Context, func(serve.Outcome)) {
	if t == nil {
		return ctx, func(serve.Outcome) {}
	}
	ctx, span := t.tracer.Start(ctx, "infer", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("carve.model", r.Model), attribute.String("carve.request_id", r.ID)))
	return ctx, func(o serve.Outcome) {
		if o.Version != nil {
			span.SetAttributes(attribute.Int64("carve.version", o.Version.Number), attribute.Int("carve.rows", o.Rows),
				attribute.Float64("carve.queue_seconds", o.Queue.Seconds()), attribute.Float64("carve.infer_seconds", o.Infer.Seconds()))
		}
		if o.Err != nil {
			span.SetStatus(codes.Error, o.Err.Error())
		}
		span.End()
	}
}
