// Package plan turns a config, a threshold and a cluster file into one
// validated plan, and holds every message about bad input.
//
// Three written forms (native flat, native with profiles, unified serving) end
// in the same [Plan]; the rest of cvs never sees which one it was. The input is
// decoded with positions, so each problem names file, line, column and JSON
// path, what was expected, what was found and the nearest valid name, and all
// problems of all files are reported together.
//
// It reads the files it is told to read and nothing else: no environment, no
// clock, no network. It must not know how a plan is carried out.
package plan

import "cvs/collect/artifact"

// A Driver names a serving framework.
type Driver string

// The drivers of the reference page.
const (
	DriverATOM     Driver = "atom"
	DriverVLLMATOM Driver = "vllm_atom"
	DriverVLLM     Driver = "vllm"
	DriverSGLang   Driver = "sglang"
)

// A Plan is what a run will do. It is complete, checked and not to be written
// to after [Load] returned it.
type Plan struct {
	Suite      string // "atom"
	Profile    string // chosen profile, "perf" for files without profiles
	Schema     string // "native", "serving"
	Config     Source
	Threshold  Source
	ClusterSrc Source
	Resolved   []byte // the flat config after placeholders, profile and defaults, as JSON, secrets redacted

	GPUArch       string
	Enforce       bool
	EnforceOrigin string // e.g. "config line 5", "default of the native schema"
	Paths         Paths
	Model         Model
	Container     Container
	RunCard       RunCard
	Server        Server
	Params        Params
	Cells         []Cell // in run order
	Thresholds    []artifact.Threshold

	Accuracy    []AccuracyTask
	Functional  Functional
	Platform    Platform
	LongContext []LongContextCell
	MTP         MTPQuality
	Quant       QuantParity

	Cluster  Cluster
	Warnings []Problem
	Coverage Coverage
	Origins  []Origin // where each resolved value came from, in path order
}

// A Source is one input file.
type Source struct {
	Path   string // as given
	SHA256 string
	Bytes  []byte
}

// Paths is the paths block.
type Paths struct {
	SharedFS, ModelsDir, LogDir, HFTokenFile, TempDir string
}

// Model is the model block. Remote is always false: remote fetch is refused.
type Model struct {
	ID, Precision string
}

// A Lifetime says who starts and removes the container.
type Lifetime string

// The lifetimes of spec 01 §10.
const (
	NoLaunch   Lifetime = "no_launch"
	PerRun     Lifetime = "per_run"
	Persistent Lifetime = "persistent"
)

// Container is the cluster file's container block with the config's laid over
// it (spec 01 §10.1), checked.
type Container struct {
	Lifetime Lifetime
	Name     string
	Image    string
	ImageTar string
	Runtime  RuntimeArgs
	Env      []EnvVar // container environment: cluster's, then the server role's, in order
}

// RuntimeArgs are docker's arguments; every key takes effect or is refused
// (decision 28).
type RuntimeArgs struct {
	Network, IPC, ShmSize string
	Privileged            bool
	Volumes, Devices      []string
	CapAdd, SecurityOpt   []string
	GroupAdd, Ulimit      []string
	Env                   []EnvVar
	Registry              *Registry
}

// Registry is a docker login; the password is read from a file on the node.
type Registry struct {
	Server, Username, PasswordFile string
}

// An EnvVar is one environment variable, in the order written.
type EnvVar struct{ Name, Value string }

// LastWins keeps every name once, at its first place and with its last value, as
// an environment put together from several places is meant.
func LastWins(env []EnvVar) []EnvVar {
	at := map[string]int{}
	var out []EnvVar
	for _, e := range env {
		if i, ok := at[e.Name]; ok {
			out[i].Value = e.Value
			continue
		}
		at[e.Name] = len(out)
		out = append(out, e)
	}
	return out
}

// RunCard is informational.
type RunCard struct {
	UpstreamRunURL, ATOMImagePin, Notes string
}

// Server is roles.server after the network variables were taken out and the
// MXFP4 defaults put in.
type Server struct {
	ATOMArgs, SGLangArgs []string
	ServeArgs            []ServeArg // config order; defaults of the driver are not in here
	Env                  []EnvVar   // exported to the server, config order
	GPUMemoryUtil        string     // CVS_GPU_MEMORY_UTIL or VLLM_GPU_MEMORY_UTIL, "" if unset
	IBHCADevices         []string   // nil: discover
	IBNetdev             string     // "": discover
}

// A ServeArg is one entry of serve_args: a bare flag, or a flag with values.
type ServeArg struct {
	Flag   string // without dashes
	Off    bool   // written as false: not passed, and suppresses a default
	Values []string
}

// Params is the params block, typed. Durations are seconds.
type Params struct {
	Driver                                       Driver
	Backend, BaseURL, DatasetName, TokenizerMode string
	Port, MasterPort                             int
	Burstiness, RequestRate, RandomRangeRatio    string // passed to the clients as written
	Seed, RandomPrefixLen                        int
	TP, PP, DP, NNodes                           int
	PercentileMetrics, MetricPercentiles         string
	NumPrompts, MaxModelLength                   int
	ClientPollCount, ClientPollWait              int
	ClientInitialWait                            int
	ServerPrecheckWait, ServerWarmupWait         int
	ServerPollCount, ServerPollWait              int
	ReuseServer                                  bool
	MaxFailedRequests                            int
	BenchExtraArgs                               []string // split as a POSIX shell would, nothing expanded
	ResultStem                                   string   // result_filename without .json
	MasterAddr                                   string   // "" means the head node
	ScalingBaseline                              *float64
	// MatchLengths: every client draws lengths from [ratio·L, L], as ATOM's and
	// SGLang's do; one that draws around L gets other arguments (decision 27).
	MatchLengths bool
}

// ReadyBudget is the upper bound for a server start, in seconds (decision 22).
func (p Params) ReadyBudget() int {
	return p.ServerPrecheckWait + p.ServerWarmupWait + p.ServerPollCount*p.ServerPollWait
}

// ClientBudget is the upper bound for one client, in seconds (decision 22).
func (p Params) ClientBudget() int { return p.ClientInitialWait + p.ClientPollCount*p.ClientPollWait }

// GPUs is the number of GPUs a server uses: TP × PP × DP (decision 11).
func (p Params) GPUs() int { return p.TP * p.PP * p.DP }

// A Cell is one benchmark: a shape at a concurrency.
type Cell struct {
	Ordinal     int    // from 1
	ID          string // <combo>-conc<concurrency>
	Key         string // ISL=…,OSL=…,TP=…,PP=…,CONC=…
	Combo       string
	ISL, OSL    int
	Concurrency int
}

// An AccuracyTask is one lm-eval selection (spec 02 §14.1).
type AccuracyTask struct {
	ID                                           string
	Tasks                                        []string
	Backend, LMEvalModel, ExtraModelArgs         string
	NumConcurrent                                int
	NumFewshot                                   *int
	BatchSize                                    string
	MaxBatchSize                                 *int
	Device, UseCache, CacheRequests, IncludePath string
	GenKwargs, Metadata, Samples                 string // compact JSON, "" if unset
	Filter                                       string // metadata.filter
	Limit                                        *float64
	CheckIntegrity, PredictOnly                  bool
	TrustRemoteCode, ConfirmRunUnsafeCode        bool
	SystemInstruction                            string
	ApplyChatTemplate                            bool
	ChatTemplate                                 string
	FewshotAsMultiturn                           *bool
	Seed                                         []string // four, "None" for null
	ExecTimeout                                  int      // seconds
}

// Functional is FUNC-1 and FUNC-2.
type Functional struct{ APISmoke, HealthCheck bool }

// Platform is INF-6 and INF-7.
type Platform struct{ DmesgScan, GPUMetricsPoll bool }

// A LongContextCell is one needle-in-a-haystack cell (ACC-12).
type LongContextCell struct {
	ID                         string
	ISL, OSL, NumPrompts, Seed int
	DepthPct                   int // where the needle stands: 0, the start, to 100, the end
	Concurrency                int // requests in flight
}

// MTPQuality is ACC-4/5/13.
type MTPQuality struct {
	Requested              bool // enabled, or implied by the server's arguments
	Prompt, ExpectedSHA256 string
}

// QuantParity is ACC-7.
type QuantParity struct {
	Enabled                    bool
	ProbePrompt, ReferenceStem string
}

// Cluster is the cluster file.
type Cluster struct {
	Username    string
	PrivKeyFile string
	Password    string // never printed, logged or stored
	Nodes       []Node // rank order: the head first, then file order
	EnvVars     []EnvVar
}

// A Node is one host. Addr is the node_dict key, which may be host:port.
type Node struct {
	Addr, VPCIP string
}

// Coverage sums up how thresholds and sweep fit, for the plan summary.
type Coverage struct {
	CellsWithoutSpecs []string
	MissingSpecs      []string // "cell: metric, metric, …"
	StaleCells        []string // well-formed keys of cells this sweep does not have
	UngatedTasks      []string
}

// An Origin says where a resolved value came from.
type Origin struct {
	Path  string // dotted, e.g. params.num_prompts
	Value string // as JSON, secrets redacted
	From  string // default, config line 12, profile perf line 40, cluster line 9, flag, environment
}

// A Problem is one error or warning about an input file.
type Problem struct {
	File    string // base name as given
	Line    int    // 0: the file as a whole
	Column  int
	Path    string // JSON path, e.g. params.num_prompts or sweep.runs[2].combo
	Msg     string // what was expected and what was found
	Hint    string // nearest valid name, or what to do; may be ""
	Warning bool
}
