package lab

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// dockerFlags says which options of a subcommand take a value. Docker's own
// parser stops at the first argument that is not an option; so does this one.
var dockerFlags = map[string]struct{ value, plain string }{
	"run": {
		value: "--name -v --volume -e --env --env-file --device --cap-add --cap-drop --security-opt --group-add --network --net --ipc --pid --uts " +
			"--ulimit --shm-size --label -l --label-file --hostname -h --user -u --workdir -w --entrypoint --mount --gpus --runtime --cpus --cpuset-cpus " +
			"--cpuset-mems --memory -m --memory-swap --restart --add-host --tmpfs --log-driver --log-opt --stop-signal --stop-timeout --pull --platform " +
			"--publish -p --userns --cgroupns --cidfile --pids-limit --oom-score-adj --sysctl --dns --expose --annotation --health-cmd",
		plain: "-d --detach -i --interactive -t --tty --rm --privileged --init --read-only --oom-kill-disable --no-healthcheck -P --publish-all -q --quiet",
	},
	"exec":    {value: "-e --env --env-file -w --workdir -u --user --detach-keys", plain: "-i --interactive -t --tty -d --detach --privileged"},
	"ps":      {value: "--filter -f --format -n --last", plain: "-a --all -q --quiet --no-trunc -l --latest -s --size"},
	"inspect": {value: "--format -f --type", plain: "-s --size"},
	"images":  {value: "--filter -f --format", plain: "-a --all -q --quiet --no-trunc --digests"},
	"rm":      {plain: "-f --force -v --volumes -l --link"},
	"rmi":     {plain: "-f --force --no-prune"},
	"stop":    {value: "-t --time -s --signal"},
	"kill":    {value: "-s --signal"},
	"logs":    {value: "--tail -n --since --until", plain: "-f --follow -t --timestamps --details"},
	"pull":    {value: "--platform", plain: "-a --all-tags -q --quiet"},
	"load":    {value: "-i --input --platform", plain: "-q --quiet"},
	"login":   {value: "-u --username -p --password", plain: "--password-stdin"},
	"version": {value: "--format -f"},
	"info":    {value: "--format -f"},
}

// dockerAliases are the spellings that mean the same option.
var dockerAliases = map[string]string{
	"-v": "--volume", "-e": "--env", "-l": "--label", "-h": "--hostname", "-u": "--user", "-w": "--workdir", "-m": "--memory", "-p": "--publish",
	"-d": "--detach", "-i": "--interactive", "-t": "--tty", "-q": "--quiet", "-a": "--all", "-f": "--filter", "-n": "--last", "-P": "--publish-all", "--net": "--network",
}

// dockerArgs are parsed options by long name, and what follows them.
type dockerArgs struct {
	opts map[string][]string
	rest []string
}

func (a dockerArgs) has(name string) bool { return len(a.opts[name]) > 0 }

func (a dockerArgs) last(name string) string {
	if v := a.opts[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

func has(list, name string) bool { return strings.Contains(" "+list+" ", " "+name+" ") }

func parseDocker(command string, args []string) (dockerArgs, error) {
	flags, ok := dockerFlags[command]
	a := dockerArgs{opts: map[string][]string{}}
	if !ok {
		return a, fmt.Errorf("docker: '%s' is not a docker command.\nSee 'docker --help'", command)
	}
	long := func(name string) string {
		switch { // short names whose meaning depends on the command
		case name == "-f" && (command == "rm" || command == "rmi"):
			return "--force"
		case name == "-f" && command == "logs":
			return "--follow"
		case name == "-f" && command != "ps" && command != "images":
			return "--format"
		case name == "-v" && command == "rm":
			return "--volumes"
		case name == "-t" && command == "stop":
			return "--time"
		case name == "-s":
			return "--signal"
		case name == "-n" && command == "logs":
			return "--tail"
		case name == "-i" && command == "load":
			return "--input"
		case name == "-u" && command == "login":
			return "--username"
		case name == "-p" && command == "login":
			return "--password"
		}
		if l, ok := dockerAliases[name]; ok {
			return l
		}
		return name
	}
	interspersed := command != "run" && command != "exec"
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' {
			if !interspersed {
				break
			}
			a.rest = append(a.rest, arg)
			args = args[1:]
			continue
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		name, value, inline := strings.Cut(arg, "=")
		if !strings.HasPrefix(arg, "--") && !inline && len(arg) > 2 { // -it, -eK=V
			name = arg[:2]
			if has(flags.plain, name) {
				a.opts[long(name)] = append(a.opts[long(name)], "true")
				args = append([]string{"-" + arg[2:]}, args...)
				continue
			}
			value, inline = arg[2:], true
		} else if !strings.HasPrefix(arg, "--") && inline && len(name) > 2 { // -eK=V
			name, value = arg[:2], arg[2:]
		}
		switch {
		case has(flags.plain, name):
			if inline && value == "false" {
				continue
			}
			a.opts[long(name)] = append(a.opts[long(name)], "true")
		case has(flags.value, name):
			if !inline {
				if len(args) == 0 {
					return a, fmt.Errorf("flag needs an argument: %s\n\nUsage:  docker %s [OPTIONS]\n\nRun 'docker %s --help' for more information", name, command, command)
				}
				value, args = args[0], args[1:]
			}
			a.opts[long(name)] = append(a.opts[long(name)], value)
		default:
			kind := "unknown flag: " + name
			if !strings.HasPrefix(name, "--") {
				kind = fmt.Sprintf("unknown shorthand flag: '%s' in %s", strings.TrimPrefix(name, "-"), name)
			}
			return a, fmt.Errorf("%s\n\nUsage:  docker %s [OPTIONS]\n\nRun 'docker %s --help' for more information", kind, command, command)
		}
	}
	a.rest = append(a.rest, args...)
	return a, nil
}

// environment is what -e and --env-file say; a bare name takes the caller's value.
func (a dockerArgs) environment(caller []string) ([]string, error) {
	var lines []string
	for _, file := range a.opts["--env-file"] {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("docker: open %s: no such file or directory", file)
		}
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			if line := strings.TrimLeft(sc.Text(), " \t"); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		err = sc.Err()
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("docker: reading %s: %w", file, err)
		}
	}
	var env []string
	for _, e := range append(lines, a.opts["--env"]...) {
		if !strings.Contains(e, "=") {
			v := lookupEnv(caller, e)
			if v == "" {
				continue
			}
			e += "=" + v
		}
		env = append(env, e)
	}
	return env, nil
}
