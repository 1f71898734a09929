//! Shell completions and man pages, from the same description of the command line that parses it.

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{Cli, files};

/// Name of the program.
const NAME: &str = "hca";

/// Options of `hca completions`.
#[derive(clap::Args)]
#[command(after_help = "For bash, in this shell: source <(hca completions bash)")]
pub struct CompletionsArgs {
    shell: Shell,
}

/// Options of `hca extras`.
#[derive(clap::Args)]
pub struct ExtrasArgs {
    /// Gets man1 and completions
    folder: PathBuf,
}

fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, &mut Cli::command(), NAME, &mut text);
    text
}

/// Prints the script of a shell.
pub fn completions(args: &CompletionsArgs) -> Result<ExitCode> {
    crate::print(&String::from_utf8_lossy(&script(args.shell)))?;
    Ok(ExitCode::SUCCESS)
}

/// A page for the program and one for each command, named as they are called: hca-run.1.
fn write_pages(command: &clap::Command, folder: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(NAME);
    let mut page = Vec::new();
    // The date of a build would make each one another.
    Man::new(command.clone())
        .date("")
        .render(&mut page)
        .with_context(|| format!("cannot render the man page of {name}"))?;
    files::write(&folder.join(format!("{name}.1")), &page)?;
    let visible = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for sub in visible {
        write_pages(sub, folder)?;
    }
    Ok(())
}

/// Writes all of it.
pub fn write(args: &ExtrasArgs) -> Result<ExitCode> {
    let scripts = args.folder.join("completions");
    for (shell, file) in [
        (Shell::Bash, "hca"),
        (Shell::Zsh, "_hca"),
        (Shell::Fish, "hca.fish"),
    ] {
        let path = scripts.join(shell.to_string()).join(file);
        files::write(&path, &script(shell))?;
    }
    let mut command = Cli::command();
    command.build();
    write_pages(&command, &args.folder.join("man1"))?;
    Ok(ExitCode::SUCCESS)
}
