// Package driver knows the serving frameworks: what to run for a server and for
// a benchmark client, in which environment, where readiness is asked, and which
// file a client leaves behind.
//
// A driver is pure: it turns a plan into argument lists. It must not know how a
// command is quoted, carried to a machine or put into a container, nor what a
// number in a result means. One framework is one file, which registers itself.
package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/plan"
)

// A Driver says how one serving framework is run. Implementations are stateless.
type Driver interface {
	// Name is the value of params.driver.
	Name() plan.Driver
	// Server is the process of one rank. Its error means that the plan cannot be
	// served this way (bad parallel sizes, for example).
	Server(p *plan.Plan, r Rank) (Process, error)
	// Serves reports whether a rank of the server answers HTTP requests; the
	// others only work for rank 0.
	Serves(p *plan.Plan, rank int) bool
	// Client is the benchmark of one cell; it writes [Driver.Artefact] into dir,
	// an absolute path inside the container.
	Client(p *plan.Plan, c plan.Cell, dir string) Process
	// Lengths says from which lengths the client draws, in tokens.
	Lengths(p *plan.Plan, c plan.Cell) (input, output Span)
	// Artefact is the base name of the file that the client writes.
	Artefact(p *plan.Plan) string
	// ServerLog is the base name of the server's log.
	ServerLog() string
	// Format is the name of the artefact's format, as in [artifact.File].
	Format() string
	// Cleanup is run inside the container before every fresh start; nil for nothing.
	Cleanup() []string
	// Notes says what this framework's client or server cannot do of what the plan
	// asks for, one sentence each.
	Notes(p *plan.Plan) []string
}

// A Rank is one host's place in a server that spans hosts.
type Rank struct {
	Index      int
	MasterAddr string   // address of rank 0; used when nnodes > 1
	Netdev     string   // socket interface; used when nnodes > 1
	HCAs       []string // RDMA devices, in order; nil when none are known
}

// A Process is one program to start: its own argument list, unquoted, and the
// environment that is added to the container's.
type Process struct {
	Args []string
	Env  []plan.EnvVar // every name once, in the order of first mention
	// PrependPath are search path variables and the folder put in front of what
	// the container already has in them.
	PrependPath []plan.EnvVar
}

// A Span is drawn from evenly, both ends included.
type Span struct{ Min, Max int }

// below is what a client draws that takes a length as the greatest:
// [r·L, L], r being params.random_range_ratio.
func below(p *plan.Plan, n int) Span {
	return Span{int(float64(n) * ratio(p)), n}
}

// ratio is params.random_range_ratio, which the loader made sure is a fraction.
func ratio(p *plan.Plan) float64 {
	r, err := strconv.ParseFloat(p.Params.RandomRangeRatio, 64)
	if err != nil {
		return 0
	}
	return r
}

// Endpoints of the OpenAI-compatible surface that all four frameworks serve.
const (
	HealthPath     = "/health"
	ModelsPath     = "/v1/models"
	CompletionPath = "/v1/completions"
)

var drivers = map[plan.Driver]Driver{}

// register is called from init only; the map is read-only afterwards.
func register(d Driver) {
	if _, dup := drivers[d.Name()]; dup {
		panic("driver: " + string(d.Name()) + " registered twice")
	}
	drivers[d.Name()] = d
}

// For returns the driver called name, or an error that lists those there are.
func For(name plan.Driver) (Driver, error) {
	if d, ok := drivers[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("no driver %q: there are %s", name, strings.Join(Names(), ", "))
}

// Names lists the drivers, sorted.
func Names() []string {
	var out []string
	for n := range drivers {
		out = append(out, string(n))
	}
	slices.Sort(out)
	return out
}

// Dir is the folder inside the container for one cell on one rank. The run id is
// part of it, so that runs sharing a log folder never meet.
func Dir(p *plan.Plan, runID string, rank int, c plan.Cell, repeat int) string {
	leaf := fmt.Sprintf("isl%d_osl%d_conc%d", c.ISL, c.OSL, c.Concurrency)
	if repeat > 1 {
		leaf += "_repeat" + strconv.Itoa(repeat)
	}
	return path.Join(Base(p, runID), "out-node"+strconv.Itoa(rank), leaf)
}

// Base is the folder inside the container for everything of one run.
func Base(p *plan.Plan, runID string) string { return path.Join(p.Paths.LogDir, "atom", runID) }

// SessionKey identifies a server: what is started, in which environment, from
// which image. Cells with equal keys may share one server. It is a hash, so it
// shows nothing of the environment's values.
func SessionKey(image string, ps ...Process) (string, error) {
	raw, err := json.Marshal(struct {
		Image string
		Ranks []Process
	}{image, ps})
	if err != nil {
		return "", fmt.Errorf("server session key: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// ServedModel is the model id that the server must answer to: the one given by
// --served-model-name, else the model itself.
func ServedModel(p *plan.Plan, argv []string) string {
	if v, ok := flagValue(argv, "--served-model-name"); ok {
		return v
	}
	return p.Model.ID
}

// managedEnv are variables that the plan or the driver sets itself or that are
// options to cvs; a config's value for them is never exported.
var managedEnv = map[string]bool{
	"CVS_GPU_MEMORY_UTIL": true, "VLLM_GPU_MEMORY_UTIL": true, "VLLM_ENFORCE_EAGER": true,
	"NCCL_SOCKET_IFNAME": true, "GLOO_SOCKET_IFNAME": true, "TP_SOCKET_IFNAME": true, "NCCL_IB_HCA": true,
}

// baseEnv is the environment that server and client share. extra are the
// framework's own defaults. The config comes last, so it overrides.
func baseEnv(p *plan.Plan, r Rank, extra ...plan.EnvVar) []plan.EnvVar {
	var env []plan.EnvVar
	if p.Paths.ModelsDir != "" {
		env = append(env, plan.EnvVar{Name: "HF_HUB_CACHE", Value: p.Paths.ModelsDir})
	}
	env = append(env, extra...)
	if len(r.HCAs) > 0 {
		env = append(env, plan.EnvVar{Name: "NCCL_IB_HCA", Value: strings.Join(r.HCAs, ",")})
	}
	if p.Params.NNodes > 1 && r.Netdev != "" {
		for _, n := range []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"} {
			env = append(env, plan.EnvVar{Name: n, Value: r.Netdev})
		}
	}
	for _, e := range p.Server.Env {
		if !managedEnv[e.Name] {
			env = append(env, e)
		}
	}
	return plan.LastWins(env)
}

// spelling brings a flag to one form: argparse takes dashes and underscores
// alike in the frameworks' parsers, and --flag=value as well.
func spelling(token string) string {
	name, _, _ := strings.Cut(token, "=")
	return strings.ReplaceAll(name, "_", "-")
}

// hasFlag reports whether one of the flags is among the tokens, also as
// --flag=value.
func hasFlag(tokens []string, flags ...string) bool {
	return slices.ContainsFunc(tokens, func(t string) bool {
		return strings.HasPrefix(t, "-") && slices.Contains(flags, spelling(t))
	})
}

// flagValue returns the last value given for a flag.
func flagValue(tokens []string, flag string) (string, bool) {
	value, ok := "", false
	for i, t := range tokens {
		if !strings.HasPrefix(t, "-") || spelling(t) != flag {
			continue
		}
		if _, v, has := strings.Cut(t, "="); has {
			value, ok = v, true
		} else if i+1 < len(tokens) {
			value, ok = tokens[i+1], true
		}
	}
	return value, ok
}

// withoutFlags drops the flags and the token that follows each.
func withoutFlags(tokens []string, flags ...string) []string {
	var out []string
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if strings.HasPrefix(t, "-") && slices.Contains(flags, spelling(t)) {
			if !strings.Contains(t, "=") {
				i++
			}
			continue
		}
		out = append(out, t)
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }
