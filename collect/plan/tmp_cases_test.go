package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTmpCases(t *testing.T) {
	root := "/work/shared/cases"
	dirs, _ := filepath.Glob(root + "/c*")
	bad := 0
	for _, dir := range dirs {
		b, err := os.ReadFile(dir + "/case.json")
		if err != nil {
			continue
		}
		var c struct {
			Operation string
			Run       struct {
				Runs []struct {
					Args []string
					Exit string
				}
			}
			ExitClass string `json:"exit_class"`
			Expect    struct {
				Variants map[string]string
				Also     []string `json:"also_accepted_exit"`
			}
		}
		json.Unmarshal(b, &c)
		check := func(sub, want, profile string) {
			configs, _ := filepath.Glob(filepath.Join(dir, sub, "*.json"))
			var cfg string
			for _, f := range configs {
				n := filepath.Base(f)
				if strings.HasSuffix(n, "_single.json") || strings.HasSuffix(n, "_distributed.json") || n == "my_run.json" {
					cfg = f
				}
			}
			if cfg == "" {
				return
			}
			_, err := os.Stat(filepath.Join(dir, sub, "cluster.json"))
			o := Options{ConfigFile: cfg, OSUser: "me", Profile: profile}
			if err == nil {
				o.ClusterFile = filepath.Join(dir, sub, "cluster.json")
			}
			p, err := Load(o)
			got := "OK"
			if err != nil {
				got = "INPUT_ERROR"
			}
			ok := got == want || want != "INPUT_ERROR" && got == "OK"
			for _, a := range c.Expect.Also {
				ok = ok || a == got
			}
			mark := "  "
			if !ok {
				mark = "XX"
				bad++
			}
			if c.Operation == "load" || c.Operation == "plan" || !ok || want == "INPUT_ERROR" {
				fmt.Printf("%s %s/%s [%s] want %s got %s\n", mark, filepath.Base(dir), sub, profile, want, got)
				if err != nil {
					fmt.Println("      " + strings.ReplaceAll(err.Error(), "\n", "\n      "))
				} else {
					for _, w := range p.Warnings {
						fmt.Println("      W " + w.String())
					}
				}
			}
		}
		if len(c.Run.Runs) > 0 && c.Operation == "load" {
			for _, r := range c.Run.Runs {
				prof := ""
				if len(r.Args) == 2 {
					prof = r.Args[1]
				}
				want := r.Exit
				if want == "" {
					want = c.ExitClass
				}
				check("", want, prof)
			}
		} else {
			check("", c.ExitClass, "")
		}
		for v, w := range c.Expect.Variants {
			check(v, w, "")
		}
	}
	fmt.Println("bad", bad)
}
