@echo off
rem Ends Tickwire's service, and removes it and its folder. The group of its users stays.
setlocal
set "FOLDER=%ProgramFiles%\Tickwire"
net session >nul 2>&1
if errorlevel 1 (
    echo This needs administrator rights: start a console as administrator, and this in it.
    exit /b 1
)
if not exist "%FOLDER%\tickwire.exe" (
    echo Tickwire is not installed in %FOLDER%.
    exit /b 1
)
"%FOLDER%\tickwire.exe" service --uninstall
if errorlevel 1 exit /b 1
cd /d "%TEMP%"
rmdir /s /q "%FOLDER%"
if exist "%FOLDER%" (
    echo A program still uses %FOLDER%: end it, then remove the folder.
    exit /b 1
)
echo Tickwire is removed.
