//! tokio with its scheduler of several threads: echo server, and a client with one connection.

use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SIZE: usize = 64;
const WARM_UP: Duration = Duration::from_millis(250);

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address, port] => serve(&format!("{address}:{port}")).await,
        ["ask", address, port, seconds] => {
            let seconds = seconds.parse().map_err(std::io::Error::other)?;
            ask(&format!("{address}:{port}"), Duration::from_secs_f64(seconds)).await
        }
        _ => Err(std::io::Error::other("serve ADDRESS PORT | ask ADDRESS PORT SECONDS")),
    }
}

async fn serve(address: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            length => stream.write_all(&buffer[..length]).await?,
        }
    }
}

async fn ask(address: &str, lasting: Duration) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let began = Instant::now();
    while began.elapsed() < WARM_UP {
        trip(&mut stream).await?;
    }
    let (began, mut taken) = (Instant::now(), Vec::new());
    while began.elapsed() < lasting {
        let sent = Instant::now();
        trip(&mut stream).await?;
        taken.push(sent.elapsed());
    }
    taken.sort_unstable();
    let us = |percent: usize| taken[taken.len() * percent / 100].as_secs_f64() * 1e6;
    println!("trips={} p50_us={:.2} p99_us={:.2}", taken.len(), us(50), us(99));
    Ok(())
}

async fn trip(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; SIZE];
    stream.write_all(&buffer).await?;
    stream.read_exact(&mut buffer).await?;
    Ok(())
}
