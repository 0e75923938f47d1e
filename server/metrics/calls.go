package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// callBuckets are the bounds of how long calls take, in seconds: from a read in memory to a Get that waits.
var callBuckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// codeCount is how many codes gRPC has.
const codeCount = int(codes.Unauthenticated) + 1

// Calls are the metrics of RPCs, under the names and labels that are usual for gRPC.
type Calls struct {
	methods map[string]*Method // by full name; not changed any more
	unknown *Method
}

// Method counts the calls of one method. A nil Method counts nothing.
type Method struct {
	started prometheus.Counter
	handled [codeCount]prometheus.Counter
	seconds prometheus.Observer
}

// NewCalls returns the metrics of the methods of a server, and registers them. Every series is there from the start: a rate
// does not see the first call of a series that comes with it.
func NewCalls(reg prometheus.Registerer, services map[string]grpc.ServiceInfo) *Calls {
	f := promauto.With(reg)
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	started := f.NewCounterVec(prometheus.CounterOpts{
		Name: "grpc_server_started_total", Help: "Calls that began.",
	}, labels)
	handled := f.NewCounterVec(prometheus.CounterOpts{
		Name: "grpc_server_handled_total", Help: "Calls that ended, by code.",
	}, append(labels[:len(labels):len(labels)], "grpc_code"))
	seconds := f.NewHistogramVec(prometheus.HistogramOpts{
		Name: "grpc_server_handling_seconds", Help: "How long calls took, streams until their end.", Buckets: callBuckets,
	}, labels)

	method := func(kind, service, name string) *Method {
		m := &Method{
			started: started.WithLabelValues(kind, service, name),
			seconds: seconds.WithLabelValues(kind, service, name),
		}
		for code := range m.handled {
			m.handled[code] = handled.WithLabelValues(kind, service, name, codes.Code(code).String())
		}
		return m
	}
	c := &Calls{methods: make(map[string]*Method), unknown: method("unary", "unknown", "unknown")}
	for service, info := range services {
		for _, m := range info.Methods {
			c.methods["/"+service+"/"+m.Name] = method(kindOf(m), service, m.Name)
		}
	}
	return c
}

func kindOf(m grpc.MethodInfo) string {
	switch {
	case m.IsClientStream && m.IsServerStream:
		return "bidi_stream"
	case m.IsClientStream:
		return "client_stream"
	case m.IsServerStream:
		return "server_stream"
	default:
		return "unary"
	}
}

// Begin counts a call that begins, and returns what counts its end. Methods that are not the server's share one set of
// counters. A nil Calls counts nothing.
func (c *Calls) Begin(fullMethod string) *Method {
	if c == nil {
		return nil
	}
	m := c.methods[fullMethod]
	if m == nil {
		m = c.unknown
	}
	m.started.Inc()
	return m
}

// End counts the end of a call that began at a time.
func (m *Method) End(code codes.Code, began time.Time) {
	if m == nil {
		return
	}
	if int(code) >= codeCount {
		code = codes.Unknown
	}
	m.handled[code].Inc()
	m.seconds.Observe(time.Since(began).Seconds())
}
