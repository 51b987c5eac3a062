package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Environment of everything that runs on a node.
const (
	envNode      = "CVS_LAB_NODE"      // the node's state folder
	envSession   = "CVS_LAB_SESSION"   // random id of the lab; how its processes are recognised
	envContainer = "CVS_LAB_CONTAINER" // random id of the container the process runs in
)

// shimNames are the programs a node offers that the machine may lack.
var shimNames = []string{"sudo", "docker", "python", "python3", "vllm", "amd-smi", "ibv_devinfo", "ip", "getent", "dmesg", "journalctl", "lm_eval", "lm-eval", "pip", "pip3", "hf"}

// A shim is one call of a program under a borrowed name.
type shim struct {
	args           []string // args[0] is the name
	environ        []string
	stdin          *os.File
	stdout, stderr *os.File
	dir            string // the node's state folder
	node           nodeInfo
}

// Main runs the program as one of the lab's shims if it was called as one: by a
// shim's name, on a lab node, or as one of the lab's helpers. It must be called first in main and in TestMain:
//
//	if handled, code := lab.Main(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr); handled {
//		os.Exit(code)
//	}
//
// The name alone never counts, so a user's own link called docker is not
// misread.
func Main(args, environ []string, stdin, stdout, stderr *os.File) (handled bool, code int) {
	if len(args) == 1 {
		switch text := lookupEnv(environ, envHelper); args[0] {
		case helperFabric, helperNode, helperContainer:
			if text != "" {
				return true, runHelper(args[0], text, environ, stderr)
			}
		}
	}
	if len(args) == 0 || !slices.Contains(shimNames, filepath.Base(args[0])) {
		return false, 0
	}
	dir := lookupEnv(environ, envNode)
	if dir == "" {
		return false, 0
	}
	info, err := readNodeInfo(dir)
	if err != nil {
		fmt.Fprintf(stderr, "%s: not on a lab node: %v\n", filepath.Base(args[0]), err)
		return true, 127
	}
	s := &shim{args: args, environ: environ, stdin: stdin, stdout: stdout, stderr: stderr, dir: dir, node: info}
	switch filepath.Base(args[0]) {
	case "sudo":
		return true, s.sudo()
	case "docker":
		return true, s.docker()
	case "vllm":
		return true, s.vllm(args[1:])
	case "amd-smi":
		return true, s.amdSMI()
	case "ibv_devinfo":
		return true, s.ibvDevinfo()
	case "ip":
		return true, s.ipCommand()
	case "getent":
		return true, s.getent()
	case "dmesg":
		return true, s.dmesg()
	case "journalctl":
		return true, s.journalctl()
	case "lm_eval", "lm-eval":
		return true, s.lmEval(args[1:])
	case "pip", "pip3":
		return true, s.pip()
	case "hf":
		return true, s.hf()
	default:
		return true, s.python()
	}
}

func lookupEnv(environ []string, key string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(environ[i], key+"="); ok {
			return v
		}
	}
	return ""
}

// setEnv returns a copy of environ with key set once.
func setEnv(environ []string, key, value string) []string {
	return append(withoutEnv(environ, key), key+"="+value)
}

func withoutEnv(environ []string, key string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, key+"=") })
}

func (s *shim) getenv(key string) string { return lookupEnv(s.environ, key) }

func (s *shim) errorf(format string, a ...any) { fmt.Fprintf(s.stderr, format+"\n", a...) }

// lookPath finds a program on the PATH of env, as execvp would.
func lookPath(env []string, name string, skip func(path string) bool) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	for _, dir := range filepath.SplitList(lookupEnv(env, "PATH")) {
		p := filepath.Join(dir, name)
		if executable(p) == nil && (skip == nil || !skip(p)) {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}

func executable(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case st.IsDir() || st.Mode()&0o111 == 0:
		return os.ErrPermission
	}
	return nil
}

// become replaces the process by another program; it returns only on failure.
func (s *shim) become(path string, args []string) int {
	err := syscall.Exec(path, args, s.environ)
	s.errorf("%s: %v", args[0], err)
	if errors.Is(err, syscall.ENOENT) {
		return 127
	}
	return 126
}

// sudo grants everything: the user of a lab node may do what the lab may do.
func (s *shim) sudo() int {
	args := s.args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-n", "--non-interactive", "-E", "-H", "-k":
			args = args[1:]
		case "-u", "-g":
			if len(args) < 2 {
				s.errorf("sudo: option requires an argument -- '%s'", strings.TrimLeft(args[0], "-"))
				return 1
			}
			args = args[2:]
		case "--":
			args = args[1:]
			goto run
		default:
			s.errorf("sudo: invalid option -- '%s'", strings.TrimLeft(args[0], "-"))
			return 1
		}
	}
run:
	for len(args) > 0 { // VAR=value before the command
		k, v, ok := strings.Cut(args[0], "=")
		if !ok || strings.ContainsAny(k, "/ ") {
			break
		}
		s.environ = setEnv(s.environ, k, v)
		args = args[1:]
	}
	if len(args) == 0 {
		s.errorf("usage: sudo [-nEH] [-u user] command [arg ...]")
		return 1
	}
	path, err := lookPath(s.environ, args[0], nil)
	if err != nil {
		s.errorf("sudo: %s: command not found", args[0])
		return 1
	}
	return s.become(path, args)
}

// python runs the modules the lab knows and leaves everything else to the
// machine's own interpreter, if there is one.
func (s *shim) python() int {
	args := s.args[1:]
	for len(args) > 0 && (args[0] == "-u" || args[0] == "-B") {
		args = args[1:]
	}
	if len(args) >= 2 && args[0] == "-m" {
		if run, ok := s.module(args[1]); ok {
			return run(args[2:])
		}
	}
	if len(args) == 2 && args[0] == "-c" {
		if m := evalProbe.FindStringSubmatch(args[1]); m != nil {
			if m[1] == lmEvalVersion {
				return 0
			}
			return s.traceback(errors.New("AssertionError"))
		}
		if out, ok := versionProbe(args[1]); ok {
			fmt.Fprintln(s.stdout, out)
			return 0
		}
	}
	own := filepath.Join(s.dir, "bin")
	for _, name := range []string{filepath.Base(s.args[0]), "python3"} {
		path, err := lookPath(s.environ, name, func(p string) bool { return filepath.Dir(p) == own })
		if err == nil {
			return s.become(path, append([]string{name}, s.args[1:]...))
		}
	}
	if len(args) == 1 && (args[0] == "-V" || args[0] == "--version") {
		fmt.Fprintln(s.stdout, "Python 3.12.0")
		return 0
	}
	if len(args) >= 2 && args[0] == "-m" {
		s.errorf("/usr/bin/%s: No module named %s", filepath.Base(s.args[0]), args[1])
		return 1
	}
	s.errorf("bash: %s: command not found", filepath.Base(s.args[0]))
	return 127
}

func (s *shim) module(name string) (func([]string) int, bool) {
	switch name {
	case "atom.entrypoints.openai_server":
		return s.atomServer, true
	case "atom.benchmarks.benchmark_serving":
		return s.atomBench, true
	case "vllm.entrypoints.cli.main":
		return s.vllm, true
	case "sglang.launch_server":
		return s.sglangServer, true
	case "sglang.bench_serving":
		return s.sglangBench, true
	case "lm_eval":
		return s.lmEval, true
	case "pip":
		return func(args []string) int { s.args = append([]string{"pip"}, args...); return s.pip() }, true
	}
	return nil, false
}

// vllm is the vllm program and the module behind it.
func (s *shim) vllm(args []string) int {
	switch {
	case len(args) > 0 && args[0] == "serve":
		return s.vllmServer(args[1:])
	case len(args) > 1 && args[0] == "bench" && args[1] == "serve":
		return s.vllmBench(args[2:])
	case len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(s.stdout, labVersion)
		return 0
	}
	s.errorf("usage: vllm [-h] [-v] {serve,bench} ...\nvllm: error: invalid choice: %s (choose from 'serve', 'bench')", pyRepr(strings.Join(args, " ")))
	return 2
}

const labVersion = "0.0.0+lab"

// evalProbe is the question whether lm-eval is there in that version.
var evalProbe = regexp.MustCompile(`import lm_eval.*version\(['"]lm[-_]eval['"]\) *== *['"]([^'"]*)['"]`)

// versionProbe answers `import X; print(X.__version__)` for the packages an
// image would hold.
func versionProbe(code string) (string, bool) {
	code = strings.ReplaceAll(code, " ", "")
	for _, pkg := range []string{"atom", "vllm", "sglang", "torch", "transformers", "aiter"} {
		if strings.Contains(code, "import"+pkg) && strings.Contains(code, "print("+pkg+".__version__)") {
			return labVersion, true
		}
		if strings.Contains(code, "print(version('"+pkg+"'))") || strings.Contains(code, `print(version("`+pkg+`"))`) {
			return labVersion, true
		}
	}
	return "", false
}
