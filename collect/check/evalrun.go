package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/plan"
	"cvs/collect/remote"
	"cvs/collect/strictjson"
)

// An Evaluator runs groups of accuracy tasks inside a container.
type Evaluator struct {
	Runner Runner
	// Prefix brings a command into the container, for example sudo -n docker exec
	// -i NAME; empty runs it on the host.
	Prefix []string
	// Launch wraps a program so that it gets environment and log file, as the
	// caller does for its other processes. The log is an absolute path.
	Launch func(log string, args []string, env []plan.EnvVar) []string
	JobDir string        // folder in the container for the job's state, absolute; of this group only
	Lease  time.Duration // of the job: lm-eval ends when the launcher is gone for so long
	Grace  time.Duration // between TERM and KILL; 0 is 20 s
	Now    func() time.Time
}

// An EvalResult is checks/accuracy/<first id>.json: how the result files of a
// group came to be. The files themselves go to accuracy/<id>/ of every id.
type EvalResult struct {
	Header
	IDs      []string          `json:"ids"`
	Tasks    []string          `json:"tasks"`
	Filters  map[string]string `json:"filters,omitempty"` // by id: the filter of lm-eval whose values are reported
	Adapter  string            `json:"adapter"`           // local-completions or local-chat-completions
	Argv     []string          `json:"argv"`
	ExitCode *int              `json:"exit_code,omitempty"` // of lm-eval; absent when it was never learned
	WallS    float64           `json:"wall_s"`              // of lm-eval, start to exit
	LogTail  string            `json:"log_tail,omitempty"`  // its last 2,000 characters, when it failed
	Stale    []string          `json:"stale,omitempty"`     // result files that were there before it started; not used
	Files    []EvalFile        `json:"files"`
	Data     [][]byte          `json:"-"`                 // of Files, byte for byte
	Missing  []string          `json:"missing,omitempty"` // files that were found and not kept, each with the reason
	started  float64           // by the container's clock
}

// An EvalFile is one file that lm-eval wrote.
type EvalFile struct {
	Name  string `json:"name"` // base name
	Kind  string `json:"kind"` // results or samples
	Bytes int64  `json:"bytes"`
	path  string
}

// How much of what lm-eval writes is kept. Samples hold every prompt and answer.
const (
	maxEvalResults = 64 << 20
	maxEvalSamples = 256 << 20
	evalSetup      = 2 * time.Minute
	evalInstall    = 15 * time.Minute
)

// Run carries out one group: folders, lm-eval itself, then the newest result that
// this run wrote. Whatever goes wrong is in the result; it concerns this group
// only.
func (e Evaluator) Run(ctx context.Context, g EvalGroup, at EvalPlace) EvalResult {
	s := Server{Now: e.Now}
	r := EvalResult{Header: s.begin(AccuracyCheck), IDs: g.IDs, Tasks: g.Task.Tasks, Filters: g.Filters, Adapter: evalModel(g.Task), Files: []EvalFile{}}
	if err := e.run(ctx, g, at, &r); err != nil {
		r.fail(err)
	}
	s.end(ctx, &r.Header)
	return r
}

func (e Evaluator) run(ctx context.Context, g EvalGroup, at EvalPlace, r *EvalResult) error {
	argv, err := EvalArgs(g.Task, at)
	if err != nil {
		return err
	}
	r.Argv = argv
	if _, err := e.must(ctx, "folders for lm-eval", evalSetup, 0, PrepareArgs(at)); err != nil {
		return err
	}
	if _, err := e.must(ctx, "installing lm-eval", evalInstall, 0, InstallArgs()); err != nil {
		return err
	}
	out, err := e.must(ctx, "clock", evalSetup, 0, StampArgs())
	if err != nil {
		return err
	}
	if r.started, err = parseStamp(string(out)); err != nil {
		return fmt.Errorf("clock of the container: %w", err)
	}
	if err := e.eval(ctx, g.Task, at, r); err != nil {
		return err
	}
	return e.collect(ctx, at, r)
}

// eval runs lm-eval to its end or its time limit.
func (e Evaluator) eval(ctx context.Context, t plan.AccuracyTask, at EvalPlace, r *EvalResult) error {
	log := at.Output + "/lm_eval.log"
	job := remote.Job{Dir: e.JobDir, Prefix: e.Prefix, Args: e.Launch(log, r.Argv, EvalEnv(at)), Lease: e.Lease}
	began := clock(e.Now)
	if _, err := job.Start(ctx, e.Runner); err != nil {
		return err
	}
	limit := time.Duration(t.ExecTimeout) * time.Second
	wctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	state, err := job.Wait(wctx, e.Runner)
	r.WallS = clock(e.Now).Sub(began).Seconds()
	if err != nil {
		timedOut := wctx.Err() != nil && ctx.Err() == nil
		// It must not load the server any longer, whatever became of ctx.
		kctx, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer done()
		grace := e.Grace
		if grace <= 0 {
			grace = 20 * time.Second
		}
		kerr := job.Kill(kctx, e.Runner, grace)
		if timedOut {
			err = fmt.Errorf("lm-eval did not end within %v (exec_timeout_sec) and was stopped", limit)
		}
		r.LogTail = e.tail(kctx, log)
		return errors.Join(err, kerr)
	}
	if state.Phase == remote.JobExited {
		r.ExitCode = &state.ExitCode
	}
	if r.ExitCode == nil || *r.ExitCode != 0 {
		r.LogTail = e.tail(ctx, log)
		if r.ExitCode == nil {
			return errors.New("lm-eval was killed and left no exit status")
		}
		return fmt.Errorf("lm-eval ended with exit status %d: %s", *r.ExitCode, lastLine(r.LogTail))
	}
	return nil
}

// collect finds what lm-eval wrote and fetches it.
func (e Evaluator) collect(ctx context.Context, at EvalPlace, r *EvalResult) error {
	out, err := e.must(ctx, "looking for results", evalSetup, 0, FindArgs(at.Output))
	if err != nil {
		return err
	}
	files, stale, err := NewestResult(out, r.started)
	r.Stale = stale
	if err != nil {
		return err
	}
	for i, f := range files {
		limit := maxEvalSamples
		if f.Kind == "results" {
			limit = maxEvalResults
		}
		data, err := e.fetch(ctx, f, limit)
		if err == nil && i == 0 {
			err = CheckResults(data)
		}
		switch {
		case err != nil && i == 0:
			return fmt.Errorf("%s: %w", f.Name, err)
		case err != nil:
			r.Missing = append(r.Missing, f.Name+": "+clip(err.Error(), 300))
			continue
		}
		r.Files, r.Data = append(r.Files, f), append(r.Data, data)
	}
	return nil
}

func (e Evaluator) fetch(ctx context.Context, f EvalFile, limit int) ([]byte, error) {
	if f.Bytes > int64(limit) {
		return nil, fmt.Errorf("%d bytes, more than %d are not kept", f.Bytes, limit)
	}
	data, err := e.must(ctx, "fetching "+f.Name, 15*time.Minute, limit, remote.FetchArgs(f.path))
	if err == nil && int64(len(data)) != f.Bytes {
		err = fmt.Errorf("%d of %d bytes arrived", len(data), f.Bytes)
	}
	return data, err
}

func (e Evaluator) tail(ctx context.Context, log string) string {
	out, err := e.must(ctx, "log of lm-eval", evalSetup, 0, []string{"tail", "-c", "2000", "--", log})
	if err != nil {
		return "(no log: " + clip(err.Error(), 300) + ")"
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

// must runs a command inside and demands exit status 0 and whole output.
func (e Evaluator) must(ctx context.Context, what string, timeout time.Duration, limit int, args []string) ([]byte, error) {
	argv := append(append([]string{}, e.Prefix...), args...)
	return mustRun(ctx, e.Runner, what, remote.Command{Args: argv, Timeout: timeout, MaxOutput: limit, Name: what})
}

func mustRun(ctx context.Context, r Runner, what string, c remote.Command) ([]byte, error) {
	res, err := r.Run(ctx, c)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case res.ExitCode != 0:
		return res.Stdout, fmt.Errorf("%s: exit status %d: %s", what, res.ExitCode, lastLine(string(res.Stderr)))
	case res.Truncated:
		return res.Stdout, fmt.Errorf("%s: the output is too long", what)
	}
	return res.Stdout, nil
}

// lastLine is where programs say what was wrong.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return clip(s[strings.LastIndexByte(s, '\n')+1:], 300)
}

// StampArgs prints the time of the machine whose files are looked at.
func StampArgs() []string { return []string{"date", "+%s.%N"} }

// parseStamp reads seconds since 1970.
func parseStamp(text string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f <= 0 {
		return 0, fmt.Errorf("%q is not a time", clip(text, 60))
	}
	return f, nil
}

// FindArgs lists result and sample files below a folder: time, size and path of
// each, ended by NUL, because a file's name may hold anything else.
func FindArgs(dir string) []string {
	return []string{"find", dir, "-type", "f", "(", "-name", "results*.json", "-o", "-name", "samples_*.jsonl", ")",
		"-printf", `%T@ %s %p\0`}
}

// mtimeSlack is how far a file's time may lie before the clock that was read just
// before it was written: kernels stamp files with a clock that ticks in
// milliseconds.
const mtimeSlack = 0.02 // seconds

// NewestResult picks the newest result file and its samples from the output of
// [FindArgs]. Files older than started (seconds since 1970 by the same clock) are
// stale and never used; it is an error when nothing else is there.
func NewestResult(found []byte, started float64) (files []EvalFile, stale []string, err error) {
	type entry struct {
		EvalFile
		mtime float64
	}
	var results, samples []entry
	for _, rec := range bytes.Split(found, []byte{0}) {
		f := strings.SplitN(string(rec), " ", 3)
		if len(f) != 3 {
			continue
		}
		mtime, terr := strconv.ParseFloat(f[0], 64)
		size, serr := strconv.ParseInt(f[1], 10, 64)
		if terr != nil || serr != nil {
			continue
		}
		en := entry{EvalFile{Name: path.Base(f[2]), Bytes: size, path: f[2]}, mtime}
		switch {
		case mtime < started-mtimeSlack:
			stale = append(stale, f[2])
		case strings.HasPrefix(en.Name, "results"):
			en.Kind = "results"
			results = append(results, en)
		default:
			en.Kind = "samples"
			samples = append(samples, en)
		}
	}
	slices.Sort(stale)
	if len(results) == 0 {
		if len(stale) > 0 {
			return nil, stale, fmt.Errorf("lm-eval left no result: the %d files there are older than its start", len(stale))
		}
		return nil, nil, errors.New("lm-eval left no results*.json")
	}
	newest := slices.MaxFunc(results, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.mtime, b.mtime), strings.Compare(a.path, b.path))
	})
	files = []EvalFile{newest.EvalFile}
	// Samples carry the stamp of their results: results_<stamp>.json.
	stamp := strings.TrimSuffix(strings.TrimPrefix(newest.Name, "results"), ".json")
	for _, s := range samples {
		if path.Dir(s.path) == path.Dir(newest.path) && strings.HasSuffix(strings.TrimSuffix(s.Name, ".jsonl"), stamp) {
			files = append(files, s.EvalFile)
		}
	}
	slices.SortFunc(files[1:], func(a, b EvalFile) int { return strings.Compare(a.Name, b.Name) })
	return files, stale, nil
}

// CheckResults reports why a file cannot be a result of lm-eval: not JSON (NaN
// and the infinities are allowed), or without results.
func CheckResults(data []byte) error {
	v, _, err := strictjson.Parse(data, strictjson.Options{NonFinite: true, KeepDuplicates: true, SkipLists: true, MaxBytes: maxEvalResults})
	if err != nil {
		return fmt.Errorf("not a result of lm-eval: %w", err)
	}
	if res := v.Get("results"); res == nil || res.Kind != strictjson.Object || len(res.Members) == 0 {
		return errors.New("not a result of lm-eval: it has no results")
	}
	return nil
}
