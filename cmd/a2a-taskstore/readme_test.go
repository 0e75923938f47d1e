package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

//go:generate go test -run ^TestREADMEHasTheConfiguration$ -update

var update = flag.Bool("update", false, "write the configuration table into README.md")

// The table of README.md is made from the flags, their defaults and their help, so that it cannot say anything else.
func TestREADMEHasTheConfiguration(t *testing.T) {
	const (
		path  = "../../README.md"
		begin = "<!-- configuration: generated from the flags by go generate ./cmd/a2a-taskstore -->\n"
		end   = "<!-- configuration end -->\n"
	)
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(readme), begin)
	got, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatal("README.md has no place for the configuration")
	}
	want := configurationTable(commandModel(t, "serve"))
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the configuration in README.md is not that of the flags: go generate ./cmd/a2a-taskstore; want\n%s", want)
	}
}

// commandModel is what kong makes of the tags of a command.
func commandModel(t *testing.T, name string) *kong.Node {
	t.Helper()
	parser, err := newParser(&commandLine{}, &env{ctx: t.Context(), stdout: io.Discard, stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Children {
		if node.Name == name {
			return node
		}
	}
	t.Fatalf("there is no command %s", name)
	return nil
}

// configurationTable lists the flags of a command by group, the groups in the order in which they first come.
func configurationTable(command *kong.Node) string {
	var groups []string
	rows := make(map[string][]string)
	for _, f := range command.Flags {
		if f.Hidden || f.Name == "help" {
			continue
		}
		group := "Other"
		if f.Group != nil {
			group = f.Group.Title
		}
		if rows[group] == nil {
			groups = append(groups, group)
		}
		rows[group] = append(rows[group], configurationRow(f))
	}
	var b strings.Builder
	b.WriteString("\n| flag | environment | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, group := range groups {
		fmt.Fprintf(&b, "| **%s** | | | |\n%s", group, strings.Join(rows[group], ""))
	}
	b.WriteString("\n")
	return b.String()
}

// flagName finds the flags that a help text names.
var flagName = regexp.MustCompile(`--[a-z][a-z0-9-]*[a-z0-9]`)

func configurationRow(f *kong.Flag) string {
	name, value := f.Name, ""
	if f.Tag.Negatable != "" {
		name = "[no-]" + name
	}
	if f.Default != "" {
		value = "`" + f.Default + "`"
	}
	help := flagName.ReplaceAllString(strings.ReplaceAll(f.Help, "|", `\|`), "`$0`")
	return fmt.Sprintf("| `--%s` | `%s` | %s | %s |\n", name, strings.Join(f.Envs, "`, `"), value, help)
}
