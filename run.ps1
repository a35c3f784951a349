# Windows: what `make` does elsewhere.   .\run.ps1 [run|test|test-all|check|fix|bench|screenshots]
# Finds uv or installs it from the package index into .uv, makes the environment from uv.lock, then runs the target.
param([ValidateSet("run", "test", "test-all", "check", "fix", "bench", "screenshots")][string]$Target = "run")
$ErrorActionPreference = "Stop"
Set-Location $PSScriptRoot
$env:UV_PYTHON_DOWNLOADS = "never"

$found = Get-Command uv -ErrorAction SilentlyContinue
$uv = if ($found) { $found.Source } else { ".uv\bin\uv.exe" }
if (-not (Test-Path $uv)) {
    $python = if (Get-Command py -ErrorAction SilentlyContinue) { "py" } else { "python" }
    & $python packaging\get_uv.py .uv
    if ($LASTEXITCODE) { exit $LASTEXITCODE }
}
& $uv sync --frozen --quiet --compile-bytecode
if ($LASTEXITCODE) { exit $LASTEXITCODE }

function Invoke-Step([string[]]$Command) {
    & $uv run --frozen --no-sync @Command
    if ($LASTEXITCODE) { exit $LASTEXITCODE }
}

if ($Target -ne "run") { $env:QT_QPA_PLATFORM = "offscreen" }
switch ($Target) {
    "run" { Invoke-Step @("roundhouse") }
    "test" { Invoke-Step @("python", "-m", "tests.suite") }
    "test-all" { Invoke-Step @("python", "-m", "tests.suite", "--all") }
    "check" {
        Invoke-Step @("ruff", "check", ".")
        Invoke-Step @("ruff", "format", "--check", ".")
        foreach ($system in "linux", "darwin", "win32") {
            Invoke-Step @("mypy", "--platform", $system, "--cache-dir", ".mypy_cache/$system")
        }
        $workflows = (Get-ChildItem .github\workflows\*.yml).FullName
        Invoke-Step (@("check-jsonschema", "--quiet", "--builtin-schema", "vendor.github-workflows") + $workflows)
        Invoke-Step @("pytest", "-q", "tests/unit/test_layout.py", "tests/unit/test_names.py",
            "tests/unit/test_window_texts.py", "tests/unit/network/test_the_only_way.py")
    }
    "fix" {
        Invoke-Step @("ruff", "check", "--fix", ".")
        Invoke-Step @("ruff", "format", ".")
        foreach ($tables in "engine_docs", "catalogue_docs", "expert_docs", "window_texts") {
            Invoke-Step @("python", "-m", "tests.$tables", "--write")
        }
    }
    "bench" { Invoke-Step @("python", "-m", "tests.bench") }
    "screenshots" { Invoke-Step @("python", "-m", "tests.demo.screenshots", "screenshots") }
}
