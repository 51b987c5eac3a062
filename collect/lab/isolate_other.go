//go:build !linux

package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

type fabric struct{}

func startFabric(context.Context, []nodeSpec) (*fabric, error) {
	return nil, errors.New("only Linux has namespaces")
}

func (*fabric) machine(int) machine { return nil }

func (*fabric) close() {}

func runHelper(string, string, []string, *os.File) int { return 127 }

func mountNamespace(*exec.Cmd) {}
